// What became of the requests of a replay, for its report.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "pipeline/pipelines.hpp"
#include "pipeline/request_board.hpp"
#include "stagewire/pipeline.hpp"

namespace stagewire::pipeline {

struct ReplayClock {
  std::int64_t started_us = 0;  ///< of the run
  double speed = 0;             ///< 0: as fast as it goes
};

/// Adds the requests, and the figures of all together. `stages`: how each is called, "stage 1 (talker)".
void add_requests(const RequestPlan& plan, const std::vector<RequestOutcome>& outcomes,
                  std::span<const std::string> stages, const ReplayClock& clock, PipelineReport& report);

double seconds_between(std::int64_t from_us, std::int64_t to_us);

}  // namespace stagewire::pipeline
