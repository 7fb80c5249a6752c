// What the stages of a replay have made when: kept until the run is over, for a trace of it.
#pragma once

#include <cstdint>
#include <vector>

#include "pipeline/output_file.hpp"
#include "pipeline/pipelines.hpp"
#include "pipeline/request_board.hpp"

namespace stagewire::pipeline {

/// One thread.
class StepRecording {
 public:
  explicit StepRecording(std::uint64_t request_count) : request_count_(request_count) {}

  /// What the stage at this position said. `corrupt`: no stage can have said so.
  Status note(std::size_t stage, const StepsMade& made);
  /// Appends the steps of the requests that were done, by their times after `started_us`, in the form of the
  /// pipeline. Once, after the run.
  Status write(const PipelineDefinition& definition, const RequestPlan& plan,
               const std::vector<RequestOutcome>& outcomes, std::int64_t started_us, OutputFile& file);

 private:
  struct Step {
    std::size_t stage = 0;
    MadeStep made;
  };

  std::uint64_t request_count_;
  std::vector<Step> steps_;
};

}  // namespace stagewire::pipeline
