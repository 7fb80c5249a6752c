// The pipelines that this build can run, by name. A new one is a folder beside speech/ and a line in
// pipelines.cc.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/replay_context.hpp"
#include "pipeline/stage_context.hpp"

namespace stagewire::pipeline {

struct StageDefinition {
  std::string_view name;            ///< in messages: "stage 1 (encoder)"
  StageFunction run;                ///< of a pipeline from file to file, or
  ReplayFunction replay = nullptr;  ///< of a replay
};

struct PlannedRequest {
  std::string id;
  double audio_seconds = 0;
  double start_seconds = 0;  ///< after its admission, in real time at speed 1
};

/// A step of a run that was recorded.
struct TraceStep {
  std::string_view request;  ///< its id
  std::size_t stage = 0;     ///< its position
  double t_ms = 0;           ///< after the start of the run
  std::int64_t count = 0;
  bool last = false;
};

struct RequestPlan {
  std::vector<PlannedRequest> requests;
  std::uint64_t concurrency = 1;
};

struct PipelineDefinition {
  std::string_view name;
  std::span<const StageDefinition> stages;  ///< a chain, first to last
  /// Whether the input can be used; returns its length in seconds of audio. nullptr: a replay.
  Result<double> (*check_input)(const std::string& path);
  /// Whether the stages can work with these chunk options.
  Status (*check_options)(const std::map<std::string, std::int64_t>& options);
  /// The requests of a replay, or what is wrong with the options. `recorded`: the run is to become a trace,
  /// which then must not be larger than a trace may be.
  Result<RequestPlan> (*plan_requests)(const ReplayOptions& options, bool async_chunk,
                                       bool recorded) = nullptr;
  /// A line of a replay's trace, its end included.
  std::string (*trace_line)(const TraceStep& step) = nullptr;

  bool is_replay() const { return plan_requests != nullptr; }
};

/// By a plan's `pipeline`, empty = "speech"; `invalid_argument` lists the names that there are.
Result<const PipelineDefinition*> find_pipeline(std::string_view name);

}  // namespace stagewire::pipeline
