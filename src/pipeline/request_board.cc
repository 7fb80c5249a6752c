#include "pipeline/request_board.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "pipeline/outcome.hpp"

namespace stagewire::pipeline {

RequestBoard::RequestBoard(std::uint64_t request_count, std::uint64_t concurrency, std::size_t stage_count)
    : outcomes_(request_count),
      ended_at_(request_count),
      concurrency_(concurrency),
      stage_count_(stage_count) {}

std::optional<Admit> RequestBoard::admit(std::int64_t now_us) {
  const Admit admit{admitted_, std::min(concurrency_ - running_, outcomes_.size() - admitted_)};
  if (admit.count == 0) return std::nullopt;
  for (std::uint64_t i = 0; i < admit.count; ++i, ++admitted_) {
    outcomes_[admitted_].started_us = now_us;
    ended_at_[admitted_].assign(stage_count_, false);
  }
  running_ += admit.count;
  return admit;
}

Result<bool> RequestBoard::note(std::size_t stage, const RequestEnded& ended) {
  if (ended.request >= admitted_ || ended_at_[ended.request].empty() || ended_at_[ended.request][stage]) {
    return base::error(ErrorCode::corrupt, "it ended request ", ended.request, ", which does not run there; ",
                       admitted_, " were admitted");
  }
  RequestOutcome& outcome = outcomes_[ended.request];
  std::vector<bool>& ended_at = ended_at_[ended.request];
  ended_at[stage] = true;
  outcome.ended_us = std::max(outcome.ended_us, ended.at_us);
  if (ended.first_at_us != 0) outcome.first_packet_us = ended.first_at_us;
  bool is_first_failure = false;
  if (!ended.ok) {
    is_first_failure = !outcome.failure;
    // The cause may come after what it made others say.
    if (is_first_failure || consequence_rank(ended.code) < consequence_rank(outcome.failure->code)) {
      outcome.failure = Failed{ended.code, ended.message};
      outcome.failed_stage = stage;
    }
  }
  if (std::all_of(ended_at.begin(), ended_at.end(), [](bool one) { return one; })) {
    ended_at = {};
    --running_;
  }
  return is_first_failure;
}

}  // namespace stagewire::pipeline
