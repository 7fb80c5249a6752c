// The command line of `stagewire serve`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/node_arguments.hpp"
#include "stagewire/pipeline.hpp"

namespace CLI {
class App;
}

namespace stagewire::cli {

struct ServeArguments {
  std::string model;
  bool omni = false;
  std::string deploy_config;
  std::string input;
  std::string output;
  std::string stats_json;
  std::string record_trace;
  std::vector<std::string> overrides;
  std::string rate = "max";
  double timeout_s = 60;
  bool log_stats = false;
  ReplayOptions replay;
  NodeArguments node;
};

void define_options(CLI::App& app, ServeArguments& arguments);

/// What CLI11 cannot say of options by themselves: which go with which, for the pipeline that the deploy file
/// names. Completes `options`, whose plan is there already. `invalid_argument` says what to do.
Status apply_arguments(const CLI::App& app, const ServeArguments& arguments, PipelineOptions& options);

}  // namespace stagewire::cli
