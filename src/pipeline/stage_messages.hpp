// What the pipeline and its stage processes tell each other: one JSON object a message (docs/serve.md).
//
//   pipeline                          stage
//     Assignment  ------------------>   makes its connector
//                 <------------------ Ready (where it listens)
//     Start       ------------------>   runs its stage function (all at once, when all are ready)
//                 <------------------ Progress ...
//     Admit ...   ------------------>   (replays) begins with requests
//                 <------------------ StepsMade ... (of a run that is recorded)
//                 <------------------ RequestEnded ...
//     GiveUp ...  ------------------>   ends a request that failed elsewhere
//                 <------------------ Done, or Failed
//     Finish      ------------------>   closes its connector and ends (when all are done)
//   or Stop, at any time: close and end now. A channel that ends means the same.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "stagewire/connector.hpp"
#include "stagewire/pipeline.hpp"

namespace stagewire::pipeline {

struct Assignment {
  std::string pipeline;
  std::uint64_t position = 0;  ///< in the chain, from 0
  int stage_id = 0;
  int upstream = -1;    ///< id of the stage before this one, -1 = none
  int downstream = -1;  ///< and of the one after it
  std::string request_id;
  std::string input;
  int output_fd = -1;  ///< in the stage process
  bool real_time = false;
  double speed = 1;  ///< in real time: so many times as fast
  bool async_chunk = true;
  std::uint64_t active_stream_window = 0;
  bool record_steps = false;
  ReplayOptions replay;
  std::int64_t timeout_ms = 0;
  std::map<std::string, std::int64_t> chunk_options;
  ConnectorConfig connector;
};

struct Ready {
  std::string host;
  int port = 0;
};

struct Start {
  std::string upstream_host;  ///< empty: no stage before this one
  int upstream_port = 0;
};

/// Requests are known by their numbers, which count from 0 in the order in which they are admitted.
struct Admit {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

struct GiveUp {
  std::uint64_t request = 0;
  std::string reason;
};

/// A stage is through with a request.
struct RequestEnded {
  std::uint64_t request = 0;
  bool ok = false;
  ErrorCode code = ErrorCode::failed;  ///< unless ok
  std::string message;
  std::int64_t first_at_us = 0;  ///< when its first frames came; 0 = none, or a stage where none come
  std::int64_t at_us = 0;
};

/// A step of a replay's stage.
struct MadeStep {
  std::uint64_t request = 0;
  std::int64_t at_us = 0;  ///< when it was handed over to be sent, on CLOCK_MONOTONIC
  std::int64_t count = 0;  ///< rows, or frames
  bool last = false;       ///< of its request at this stage
};

/// What a stage has made since it last said so, in its order.
struct StepsMade {
  std::vector<MadeStep> steps;
};

struct Progress {
  double audio_seconds = 0;
  std::int64_t at_us = 0;  ///< on CLOCK_MONOTONIC
};

/// The edge that a stage received from.
struct Done {
  std::int64_t at_us = 0;
  std::int64_t last_chunk_at_us = 0;
  std::uint64_t chunks = 0;
  std::uint64_t bytes = 0;
  std::uint64_t most_held = 0;  ///< see EdgeReport
  RouteCounters eager, lease, read, write;
  std::string route_reason;
  double latency_p50_us = 0, latency_p90_us = 0, latency_p99_us = 0;
};

struct Failed {
  ErrorCode code = ErrorCode::failed;
  std::string message;
};

struct Finish {};
struct Stop {};

using Message = std::variant<Assignment, Ready, Start, Admit, GiveUp, Progress, StepsMade, RequestEnded, Done,
                             Failed, Finish, Stop>;

std::string encode_message(const Message& message);
/// `corrupt` says what is wrong with the text.
Result<Message> decode_message(std::string_view text);

}  // namespace stagewire::pipeline
