#include "cli/node_arguments.hpp"

#include <CLI/CLI.hpp>
#include <cmath>
#include <string_view>

#include "cli/number_range.hpp"

namespace stagewire::cli {
namespace {

constexpr const char* kNodeOptions[] = {"--omni-master-address",
                                        "--omni-master-port",
                                        "--omni-start-timeout",
                                        "--omni-heartbeat-timeout",
                                        "--secret-file",
                                        "--insecure",
                                        "--headless"};
/// What a replay consists of: nodes have to agree.
constexpr const char* kSharedOptions[] = {"--requests", "--concurrency", "--prompt-tokens", "--output-tokens",
                                          "--seed",     "--timeout",     "--rate",          "--trace"};

Error usage(const std::string& text) {
  return {ErrorCode::invalid_argument, text};
}

Milliseconds milliseconds(double seconds) {
  return Milliseconds(std::lround(seconds * 1e3));
}

}  // namespace

void define_node_options(CLI::App& app, NodeArguments& arguments) {
  const char* const group = "Several hosts";
  app.add_option("--stage-id", arguments.stage_ids,
                 "the stage that runs here, or 1,2; the others run elsewhere")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->group(group);
  app.add_option("--omni-master-address", arguments.master_address,
                 "(-oma) where the one with the first stage listens")
      ->group(group);
  app.add_option("--omni-master-port", arguments.master_port, "(-omp) and its port")->group(group);
  app.add_option("--secret-file", arguments.secret_file,
                 "the key that all nodes share, 64 hexadecimal digits; only its owner may read it")
      ->group(group);
  app.add_flag("--insecure", arguments.insecure, "no key, though other hosts can call")->group(group);
  app.add_flag("--headless", arguments.headless, "not the master; only the one with the first stage is")
      ->group(group);
  app.add_option("--omni-start-timeout", arguments.start_timeout_s,
                 "seconds for every stage to find its node, and a node its master")
      ->check(number_between(0.001, 86'400))
      ->capture_default_str()
      ->group(group);
  app.add_option("--omni-heartbeat-timeout", arguments.heartbeat_timeout_s,
                 "of the master: seconds after which a silent node is lost")
      ->check(number_between(0.05, 86'400))
      ->capture_default_str()
      ->group(group);
}

Status apply_node_arguments(const CLI::App& app, const NodeArguments& arguments, PipelineOptions& options) {
  if (app.count("--stage-id") == 0) {
    for (const char* option : kNodeOptions) {
      if (app.count(option) > 0)
        return usage(std::string(option) +
                     " is for runs over several hosts: say which stages run here, with --stage-id");
    }
    return {};
  }
  for (const char* option : {"--omni-master-address", "--omni-master-port"}) {
    if (app.count(option) == 0)
      return usage(std::string("--stage-id needs ") + option + ", on every host the same");
  }
  if (arguments.insecure && !arguments.secret_file.empty())
    return usage("--insecure and --secret-file contradict each other: leave one of them out");
  if (app.count("--secret-file") > 0 && arguments.secret_file.empty())
    return usage("--secret-file \"\" names no file: leave it out, or name one");
  NodeOptions node;
  node.stage_ids = arguments.stage_ids;
  node.master_address = arguments.master_address;
  node.master_port = arguments.master_port;
  node.secret_file = arguments.secret_file;
  node.insecure = arguments.insecure;
  node.headless = arguments.headless;
  node.start_timeout = milliseconds(arguments.start_timeout_s);
  node.heartbeat_timeout = milliseconds(arguments.heartbeat_timeout_s);
  for (const char* option : kSharedOptions) {
    if (app.count(option) > 0) node.stated.emplace_back(option);
  }
  options.node = std::move(node);
  return {};
}

std::vector<std::string> with_long_names(int argc, char** argv) {
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    for (const auto& [short_name, long_name] :
         {std::pair("-oma", "--omni-master-address"), std::pair("-omp", "--omni-master-port")}) {
      const std::string_view name(short_name);
      if (word == name || word.starts_with(std::string(name) + "=")) word.replace(0, name.size(), long_name);
    }
    words.push_back(std::move(word));
  }
  return words;
}

}  // namespace stagewire::cli
