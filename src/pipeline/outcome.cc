#include "pipeline/outcome.hpp"

#include <algorithm>
#include <tuple>

#include "base/check.hpp"
#include "base/text.hpp"

namespace stagewire::pipeline {

int consequence_rank(ErrorCode code) {
  if (code == ErrorCode::cancelled) return 2;
  return code == ErrorCode::unavailable || code == ErrorCode::closed || code == ErrorCode::timeout ? 1 : 0;
}

namespace {

bool died_in_silence(const StageOutcome& outcome) {
  return !outcome.failed && outcome.exit && outcome.order != 0;
}

/// Lower is more likely the cause.
std::tuple<int, std::uint64_t> rank(const StageOutcome& outcome) {
  if (outcome.order == 0) return {4, 0};
  if (died_in_silence(outcome)) return {0, outcome.order};
  return {1 + (outcome.failed ? consequence_rank(outcome.failed->code) : 0), outcome.order};
}

}  // namespace

std::string StageOutcome::who() const {
  return base::text("stage ", stage_id, " (", name, ", pid ", pid, place.empty() ? "" : " " + place, ")");
}

Error root_cause(std::span<const StageOutcome> outcomes) {
  STAGEWIRE_CHECK(!outcomes.empty(), "a run has stages");
  const StageOutcome& cause = *std::min_element(
      outcomes.begin(), outcomes.end(), [](const auto& a, const auto& b) { return rank(a) < rank(b); });
  if (cause.failed) return Error(cause.failed->code, cause.failed->message).with_context(cause.who());
  const std::string words =
      cause.last_words.empty() ? "it said nothing" : "its last words: " + cause.last_words;
  if (cause.order == 0 || !cause.exit)
    return base::error(ErrorCode::failed, cause.who(), " did not end; ", words);
  return base::error(ErrorCode::failed, cause.who(), " ", cause.exit->text(), "; ", words);
}

}  // namespace stagewire::pipeline
