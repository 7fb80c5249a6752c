#include "base/fault_spec.hpp"

#include <charconv>
#include <cmath>

#include "base/text.hpp"

namespace stagewire::base {
namespace {

Status bad(std::string_view part, std::string_view why) {
  return error(ErrorCode::invalid_argument, "fault_spec: '", part, "': ", why);
}

template <typename T>
bool parse_number(std::string_view text, T& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

Status set_probability(std::string_view part, std::string_view value, double& probability) {
  if (!parse_number(value, probability) || !(probability >= 0 && probability <= 1)) {
    return bad(part, "a probability from 0 to 1 is wanted");
  }
  return {};
}

Status set_delay(std::string_view part, std::string_view value, Duration& delay) {
  double milliseconds = 0;
  if (!parse_number(value, milliseconds) || !(milliseconds >= 0 && milliseconds <= 60'000)) {
    return bad(part, "milliseconds from 0 to 60000 are wanted");
  }
  delay = Duration(std::llround(milliseconds * 1e6));
  return {};
}

Status set(FaultSpec& spec, std::string_view part) {
  const std::size_t equals = part.find('=');
  if (equals == std::string_view::npos) return bad(part, "name=value is wanted");
  const std::string_view name = part.substr(0, equals);
  const std::string_view value = part.substr(equals + 1);
  if (name == "drop") return set_probability(part, value, spec.drop);
  if (name == "duplicate") return set_probability(part, value, spec.duplicate);
  if (name == "reorder") return set_probability(part, value, spec.reorder);
  if (name == "fail") return set_probability(part, value, spec.fail);
  if (name == "delay_ms") return set_delay(part, value, spec.delay);
  if (name == "seed")
    return parse_number(value, spec.seed) ? Status() : bad(part, "a whole number is wanted");
  if (name == "over") {
    if (value.empty() || value == "fault") return bad(part, "another backend is wanted");
    spec.over = value;
    return {};
  }
  return bad(part, "unknown; known are over, seed, delay_ms, drop, duplicate, reorder, fail");
}

}  // namespace

Result<FaultSpec> FaultSpec::parse(std::string_view text) {
  FaultSpec spec;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const Status status = set(spec, text.substr(0, comma));
    if (!status) return status.error();
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  return spec;
}

}  // namespace stagewire::base
