// The requests of a run: which have begun, where each stands, and how each ended.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "pipeline/stage_messages.hpp"

namespace stagewire::pipeline {

struct RequestOutcome {
  std::int64_t started_us = 0;       ///< when it was admitted
  std::int64_t first_packet_us = 0;  ///< 0 = there was none
  std::int64_t ended_us = 0;
  std::size_t failed_stage = 0;  ///< its position
  std::optional<Failed> failure;
};

/// Admits requests in the order of their numbers, at most so many at once; a request ends when every stage
/// has said so. One thread.
class RequestBoard {
 public:
  RequestBoard(std::uint64_t request_count, std::uint64_t concurrency, std::size_t stage_count);

  /// Those that begin now; nullopt when none may.
  std::optional<Admit> admit(std::int64_t now_us);
  /// What a stage said. True when it is the first to say that the request failed: the other stages have to
  /// give it up. `corrupt`: no stage can have said so.
  Result<bool> note(std::size_t stage, const RequestEnded& ended);
  /// By number, after the last one has ended.
  const std::vector<RequestOutcome>& outcomes() const { return outcomes_; }

 private:
  std::vector<RequestOutcome> outcomes_;
  std::vector<std::vector<bool>> ended_at_;  ///< by request, then stage; of those that run
  std::uint64_t concurrency_;
  std::size_t stage_count_;
  std::uint64_t admitted_ = 0;
  std::uint64_t running_ = 0;
};

}  // namespace stagewire::pipeline
