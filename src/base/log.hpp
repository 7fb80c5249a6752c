// Log lines from inside the library: log(LogLevel::warning, "control", "peer ", name, " is gone").
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "stagewire/log.hpp"

namespace stagewire::base {

void write_log(LogLevel level, std::string_view room, std::string_view text);

/// `room` is the folder's name. Nothing is formatted when the level is off.
template <typename... Parts>
void log(LogLevel level, std::string_view room, const Parts&... parts) {
  if (level >= log_level()) write_log(level, room, text(parts...));
}

/// Lets the first of a flood through, then at most one a second, which says how many were held back: a flood
/// of consequences must not hide the root cause (R25). One for each place that can flood.
class LogLimiter {
 public:
  /// nullopt = hold back; else how many were held back since the last line.
  std::optional<std::uint64_t> admit(TimePoint now);

 private:
  std::atomic<std::int64_t> next_{INT64_MIN};
  std::atomic<std::uint64_t> held_{0};
};

}  // namespace stagewire::base
