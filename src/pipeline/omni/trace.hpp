// A trace: a recorded run, one JSON object a line (docs/serve.md); read, and written by the line.
//
//   {"t_ms": 74.3, "request": "chat-1", "stage": "thinker", "rows": 100}
//   {"t_ms": 83.0, "request": "chat-1", "stage": "thinker", "rows": 1, "finished": true}
//   {"t_ms": 100.6, "request": "chat-1", "stage": "talker", "frames": 1, "finished": true}
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pipeline/omni/schedule.hpp"
#include "pipeline/pipelines.hpp"

namespace stagewire::pipeline::omni {

/// Longest file, and most of its requests.
inline constexpr std::size_t kMaxTraceSize = 256U << 20U;
inline constexpr std::size_t kMaxTraceRequests = 100'000;
/// Most rows of a prompt; most rows after it, or frames, of one step.
inline constexpr std::int64_t kMaxPromptTokens = 131'072;
inline constexpr std::int64_t kMaxStepCount = 32;

/// A line, with its end. The positions of thinker and talker are 0 and 1.
std::string trace_line(const TraceStep& step);
/// So many bytes a line of this request has at most.
std::size_t longest_trace_line(std::string_view request);

/// The requests in the order of their first lines; their times count from the run's start. `invalid_argument`
/// with file and line.
Result<std::vector<RequestSchedule>> parse_trace(std::string_view text, std::string_view file);
/// Blocks on the file system.
Result<std::vector<RequestSchedule>> read_trace(const std::string& file);

}  // namespace stagewire::pipeline::omni
