// The pipelines that this build can run, by name. A new one is a folder beside speech/ and a line in
// pipelines.cc.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "pipeline/stage_context.hpp"

namespace stagewire::pipeline {

struct StageDefinition {
  std::string_view name;  ///< in messages: "stage 1 (encoder)"
  StageFunction run;
};

struct PipelineDefinition {
  std::string_view name;
  std::span<const StageDefinition> stages;  ///< a chain, first to last
  /// Whether the input can be used; returns its length in seconds of audio.
  Result<double> (*check_input)(const std::string& path);
  /// Whether the stages can work with these chunk options.
  Status (*check_options)(const std::map<std::string, std::int64_t>& options);
};

/// By a plan's `pipeline`, empty = "speech"; `invalid_argument` lists the names that there are.
Result<const PipelineDefinition*> find_pipeline(std::string_view name);

}  // namespace stagewire::pipeline
