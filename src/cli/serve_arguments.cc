#include "cli/serve_arguments.hpp"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <utility>

#include "cli/number_range.hpp"

namespace stagewire::cli {
namespace {

Error usage(const std::string& text) {
  return {ErrorCode::invalid_argument, text};
}

/// Options of a replay, and those that a trace takes the place of.
constexpr const char* kReplayOptions[] = {"--trace",       "--record-trace",  "--seed",         "--requests",
                                          "--concurrency", "--prompt-tokens", "--output-tokens"};
constexpr std::size_t kFirstOfShape = 3;
constexpr const char* kFileOptions[] = {"--input", "--output"};

/// "real", "max" or so many times as fast as real.
Status read_rate(const std::string& text, PipelineOptions& options) {
  if (text == "max") return {};
  options.rate = Rate::real;
  if (text == "real") return {};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, options.speed);
  if (error == std::errc() && stop == end && options.speed >= 1e-3 && options.speed <= 1e6) return {};
  return usage("--rate: \"" + text + "\" is neither max nor real, nor a factor from 0.001 to 1000000");
}

/// The pipeline by the model's name, which the deploy file may only agree with.
Status choose_pipeline(const ServeArguments& arguments, DeployPlan& plan) {
  if (arguments.omni && arguments.model.empty()) {
    return usage(
        "--omni needs the name of the model in front of it, such as Qwen/Qwen3-Omni-30B-A3B-Instruct");
  }
  if (arguments.model.empty()) return {};
  const auto pipeline = pipeline_of_model(arguments.model);
  if (!pipeline.ok()) return pipeline.error();
  if (!arguments.omni) return usage("the model " + arguments.model + " is served with --omni: add it");
  if (!plan.pipeline.empty() && plan.pipeline != *pipeline) {
    return usage("the model " + arguments.model + " is served by the pipeline " + *pipeline + ", but " +
                 plan.file + " says `pipeline: " + plan.pipeline + "`: leave the one or the other out");
  }
  plan.pipeline = *pipeline;
  return {};
}

Status check_replay(const CLI::App& app, const ServeArguments& arguments) {
  for (const char* option : kFileOptions) {
    if (app.count(option) > 0)
      return usage(std::string(option) +
                   " is for pipelines from file to file, a replay has none: leave it out");
  }
  if (arguments.replay.trace.empty()) return {};
  for (std::size_t i = kFirstOfShape; i < std::size(kReplayOptions); ++i) {
    if (app.count(kReplayOptions[i]) > 0)
      return usage(std::string(kReplayOptions[i]) + " follows from the file of --trace: leave it out");
  }
  return {};
}

Status check_files(const CLI::App& app, const DeployPlan& plan) {
  for (const char* option : kReplayOptions) {
    if (app.count(option) > 0) {
      return usage(std::string(option) + " is for the replay of a model: name one, with --omni");
    }
  }
  for (const char* option : kFileOptions) {
    if (app.count(option) == 0) {
      return usage(std::string(option) + " is required by the pipeline \"" +
                   (plan.pipeline.empty() ? "speech" : plan.pipeline) +
                   "\"; a model is replayed with its name and --omni");
    }
  }
  return {};
}

}  // namespace

void define_options(CLI::App& app, ServeArguments& arguments) {
  app.add_option("model", arguments.model,
                 "with --omni: the model whose traffic is replayed, Qwen/Qwen3-Omni-30B-A3B-Instruct or "
                 "Qwen/Qwen2.5-Omni-7B");
  app.add_flag("--omni", arguments.omni, "replay the traffic of the model between its stages");
  app.add_option("--deploy-config", arguments.deploy_config, "the deploy YAML: stages, edges, connectors")
      ->required();
  app.add_option("--input", arguments.input, "speech: WAV file to read");
  app.add_option("--output", arguments.output, "speech: WAV file to write; it appears when it is whole");
  app.add_option("--requests", arguments.replay.requests, "replay: how many")->capture_default_str();
  app.add_option("--concurrency", arguments.replay.concurrency, "replay: how many at once")
      ->capture_default_str();
  app.add_option("--prompt-tokens", arguments.replay.prompt_tokens, "replay: of each request")
      ->capture_default_str();
  app.add_option("--output-tokens", arguments.replay.output_tokens, "replay: of each request")
      ->capture_default_str();
  app.add_option("--trace", arguments.replay.trace,
                 "replay: a recorded run, JSON lines, in place of the four options above");
  app.add_option("--record-trace", arguments.record_trace,
                 "replay: file to write to when which request emitted what, for --trace");
  app.add_option("--seed", arguments.replay.seed, "replay: of the contents")->capture_default_str();
  app.add_option("--set", arguments.overrides, "PATH=VALUE: as if the deploy file said so; may be repeated")
      ->allow_extra_args(false);
  app.add_flag("--log-stats", arguments.log_stats, "print routes, sizes, rates and latencies at the end");
  app.add_option("--stats-json", arguments.stats_json, "file to write the same to, as JSON");
  app.add_option("--rate", arguments.rate,
                 "max: as fast as it goes; real: as a microphone would give the input, or as the model would "
                 "emit it; a number: so many times as fast as real")
      ->capture_default_str();
  app.add_option("--timeout", arguments.timeout_s,
                 "seconds after which a stage, a request or a run that nothing happens to fails")
      ->check(number_between(0.001, 1e6))
      ->capture_default_str();
  define_node_options(app, arguments.node);
}

Status apply_arguments(const CLI::App& app, const ServeArguments& arguments, PipelineOptions& options) {
  if (Status status = choose_pipeline(arguments, options.plan); !status.ok()) return status;
  const Status fits =
      is_replay(options.plan.pipeline) ? check_replay(app, arguments) : check_files(app, options.plan);
  if (!fits.ok()) return fits;
  if (Status status = read_rate(arguments.rate, options); !status.ok()) return status;
  options.input = arguments.input;
  options.output = arguments.output;
  options.replay = arguments.replay;
  for (const auto& [option, file] : {std::pair("--stats-json", &arguments.stats_json),
                                     std::pair("--record-trace", &arguments.record_trace)}) {
    if (app.count(option) > 0 && file->empty())
      return usage(std::string(option) + " \"\" names no file: leave it out, or name one");
  }
  options.stats_json = arguments.stats_json;
  options.record_trace = arguments.record_trace;
  options.timeout = Milliseconds(std::lround(arguments.timeout_s * 1e3));
  return apply_node_arguments(app, arguments.node, options);
}

}  // namespace stagewire::cli
