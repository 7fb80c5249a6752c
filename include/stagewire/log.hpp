// Where the library's log lines go.
#pragma once

#include <functional>
#include <string_view>

#include "stagewire/result.hpp"

namespace stagewire {

enum class LogLevel { debug = 0, info = 1, warning = 2, error = 3, off = 4 };

/// Lowest level that is written; default `info`, or the environment's STAGEWIRE_LOG_LEVEL
/// (debug, info, warning, error, off). Thread-safe.
STAGEWIRE_API void set_log_level(LogLevel level);
STAGEWIRE_API LogLevel log_level();

/// Replaces the writer (default: one line to stderr with time, level, process id and room). `sink` is called
/// by whatever thread logs, one call at a time, must not block for long and must not call back into the
/// library. An empty function restores the default.
STAGEWIRE_API void set_log_sink(
    std::function<void(LogLevel, std::string_view room, std::string_view text)> sink);

}  // namespace stagewire
