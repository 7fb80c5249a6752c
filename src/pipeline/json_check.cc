#include "pipeline/json_check.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "base/text.hpp"

namespace stagewire::pipeline {
namespace {

using nlohmann::json;

/// The fields of all messages that are no whole numbers.
constexpr std::array<std::string_view, 8> kFractions{
    "speed",          "audio_seconds", "latency_p50_us",     "latency_p90_us",
    "latency_p99_us", "buffer_ttl_s",  "original_timeout_s", "lease_share"};
constexpr std::uint64_t kLatest = 1ULL << 62U;
constexpr int kDeepest = 4;
constexpr double kLargest = 2147483648.0;

bool is_fraction(std::string_view field) {
  return std::find(kFractions.begin(), kFractions.end(), field) != kFractions.end();
}

/// Differences of two fit 64 bits.
bool is_time(const json& value) {
  if (value.is_number_unsigned()) return value.get<std::uint64_t>() <= kLatest;
  const auto at = value.get<std::int64_t>();
  return at >= -static_cast<std::int64_t>(kLatest);
}

Status check_number(std::string_view field, const json& value) {
  if (field.ends_with("_us") && value.is_number_integer() && !is_time(value))
    return base::error(ErrorCode::corrupt, "\"", field, "\" is no time");
  if (!value.is_number_float()) return {};
  if (!is_fraction(field)) return base::error(ErrorCode::corrupt, "\"", field, "\" is no whole number");
  if (!(std::fabs(value.get<double>()) < kLargest))
    return base::error(ErrorCode::corrupt, "\"", field, "\" is too large");
  return {};
}

Status check_object(const json& object, int depth) {
  if (!object.is_object()) return base::error(ErrorCode::corrupt, "a message is no object");
  if (depth > kDeepest) return base::error(ErrorCode::corrupt, "objects lie in objects too deep");
  for (const auto& [field, value] : object.items()) {
    if (value.is_object()) {
      if (Status status = check_object(value, depth + 1); !status.ok()) return status;
    }
    if (value.is_array()) {
      for (const json& one : value)
        if (Status status = check_number(field, one); !status.ok()) return status;
    }
    if (Status status = check_number(field, value); !status.ok()) return status;
  }
  return {};
}

}  // namespace

Status check_numbers(const json& object) {
  return check_object(object, 0);
}

ErrorCode known_code(ErrorCode code) {
  return code >= ErrorCode::invalid_argument && code <= ErrorCode::failed ? code : ErrorCode::failed;
}

}  // namespace stagewire::pipeline
