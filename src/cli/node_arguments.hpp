// The options of `stagewire serve` for runs over several hosts (docs/two-hosts.md), with vLLM-Omni's names.
#pragma once

#include <string>
#include <vector>

#include "stagewire/pipeline.hpp"

namespace CLI {
class App;
}

namespace stagewire::cli {

struct NodeArguments {
  std::vector<int> stage_ids;
  std::string master_address;
  int master_port = 0;
  std::string secret_file;
  bool insecure = false;
  bool headless = false;
  double start_timeout_s = 120;
  double heartbeat_timeout_s = 5;
};

void define_node_options(CLI::App& app, NodeArguments& arguments);

/// Completes `options`, which has all else. `invalid_argument` says what to do.
Status apply_node_arguments(const CLI::App& app, const NodeArguments& arguments, PipelineOptions& options);

/// The command line with the long names of vLLM-Omni's -oma and -omp, which CLI11 would take for three short
/// options.
std::vector<std::string> with_long_names(int argc, char** argv);

}  // namespace stagewire::cli
