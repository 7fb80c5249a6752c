// A pipeline of stage processes, on this host or on several, started and watched from one place: what
// `stagewire serve` runs.
//
//   auto pipeline = Pipeline::create({.plan = plan, .input = "in.wav", .output = "out.wav"});   // checks,
//   starts nothing auto report = (*pipeline)->run(observer); // blocks until the end
//
// Each stage of the plan becomes a process, each edge a connector at both ends. The plan's `pipeline` names
// what the stages do ("speech" when it names nothing); docs/serve.md describes it. "speech" turns one file
// into another; "qwen3_omni_moe" and "qwen2_5_omni" replay the traffic of these models for many requests.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stagewire/connector.hpp"
#include "stagewire/deploy.hpp"
#include "stagewire/result.hpp"

namespace stagewire {

enum class Rate {
  max,  ///< as fast as the stages go
  real  ///< the first stage gives its audio out as a microphone would; a replay keeps to the model's times
};

/// What a replay consists of. Numbers start at 1.
struct ReplayOptions {
  std::uint64_t requests = 1;
  std::uint64_t concurrency = 1;  ///< requests at once
  std::uint64_t prompt_tokens = 100;
  std::uint64_t output_tokens = 100;
  std::string trace;       ///< a file that says when which request emits what; replaces the four above
  std::uint64_t seed = 1;  ///< of the contents
};

/// One of several processes, on as many hosts as one likes, that run the stages of one plan together. The one
/// with the first stage is the master: it waits for the others, and they do as it says (docs/two-hosts.md).
struct NodeOptions {
  std::vector<int> stage_ids;           ///< that run here
  std::string master_address;           ///< where the master listens: an address or a name; the master itself
                                        ///< may say "auto"
  int master_port = 0;                  ///< of the master alone 0 = any
  std::string secret_file;              ///< a key that all nodes share, for them and their connectors; no
                                        ///< others may read it. Empty: a connector's secret_key, or none
  bool headless = false;                ///< not the master, whatever runs here: a check, no choice
  bool insecure = false;                ///< no key, though other hosts can call
  Milliseconds start_timeout{120'000};  ///< the master: until every stage has its node; others: until the
                                        ///< master answers
  Milliseconds heartbeat_timeout{5'000};  ///< the master's counts: who is silent for so long is lost
  /// Which of the options of the replay were asked for here, as "--requests": those of a node must be the
  /// master's, who tells it all others.
  std::vector<std::string> stated;
};

struct PipelineOptions {
  DeployPlan plan;
  std::string input;         ///< of "speech", else empty
  std::string output;        ///< the same
  ReplayOptions replay;      ///< of the others
  std::string stats_json;    ///< file for the report; empty = none
  std::string record_trace;  ///< of a replay: file for when which request emitted what; empty = none
  Rate rate = Rate::max;
  double speed = 1;  ///< with Rate::real: so many times as fast
  Milliseconds timeout{
      60'000};  ///< the longest that nothing may happen: to a stage that waits, and altogether
  /// What to run for a stage: its program must call run_stage_process() with the number that follows
  /// `--pipeline-fd`;
  /// "--stage-id N --pipeline-fd K" is appended.
  std::vector<std::string> stage_command{"/proc/self/exe", "serve"};
  std::optional<NodeOptions> node;  ///< of replays: some of the stages, the others elsewhere; else all
  int stop_fd = -1;                 ///< readable = end everything (`cancelled`); borrowed, not read
};

struct EdgeReport {
  int from_stage = 0;
  int to_stage = 0;
  std::string connector;                    ///< its name in the plan
  RouteCounters eager, lease, read, write;  ///< how the chunks came
  std::string route_reason;
  std::uint64_t chunks = 0;
  std::uint64_t bytes = 0;
  std::uint64_t most_held = 0;  ///< requests that active_stream_window held back, the most at one time
  double mb_per_s = 0;  ///< bytes over the time from the request's start to the edge's last chunk, 1e6
  double latency_p50_us = 0, latency_p90_us = 0, latency_p99_us = 0;  ///< from put to ready

  STAGEWIRE_API std::string route() const;  ///< "eager", or "eager 118, read 2" when there were several
};

/// One request of a replay.
struct RequestReport {
  std::string id;
  std::string error;  ///< empty: done, and every byte was what it had to be
  double audio_seconds = 0;
  double run_seconds = 0;           ///< from its start to its last chunk checked, or to its failure
  double first_packet_seconds = 0;  ///< from its start to its first frame of audio; 0 = there was none
  double real_time_factor() const { return audio_seconds > 0 ? run_seconds / audio_seconds : 0; }
};

/// What a node that is not the master knows of the run.
struct NodeReport {
  std::vector<int> stage_ids;
  std::uint64_t requests_done = 0;
  std::uint64_t requests_failed = 0;
};

/// For "speech" the figures are those of its one request, for a replay those of the whole run.
struct PipelineReport {
  std::string pipeline;
  std::string request_id;
  std::string input;
  std::string output;
  std::vector<EdgeReport> edges;        ///< in the order of the stages
  std::vector<RequestReport> requests;  ///< of a replay
  std::optional<NodeReport> node;       ///< then there is nothing else but audio_seconds: the master has it
  double audio_seconds = 0;             ///< of requests that were done
  double run_seconds = 0;               ///< from the start to the last sample written, or chunk checked
  double first_packet_seconds = 0;      ///< from the start to the first sample written, or frame checked
  double real_time_factor() const { return audio_seconds > 0 ? run_seconds / audio_seconds : 0; }
  STAGEWIRE_API std::size_t failed_count() const;  ///< of the requests
};

STAGEWIRE_API std::string to_text(const PipelineReport& report);
STAGEWIRE_API std::string to_json(const PipelineReport& report);  ///< schema: docs/serve.md

/// Told what happens while a pipeline runs, on the thread that runs it.
class PipelineObserver {
 public:
  virtual ~PipelineObserver() = default;
  virtual void on_progress(double audio_seconds, double total_seconds, double run_seconds) = 0;
  /// A line that a stage wrote to its standard output or error.
  virtual void on_stage_output(int stage_id, std::string_view line) = 0;
  /// What nodes wait for, and who has come.
  virtual void on_note(std::string_view) {}
};

class Pipeline {
 public:
  /// Checks the plan, the input and the output; starts nothing and leaves nothing. Errors here are the
  /// caller's: what was asked for cannot be run.
  STAGEWIRE_API static Result<std::unique_ptr<Pipeline>> create(const PipelineOptions& options);
  virtual ~Pipeline() = default;

  /// Runs the request, or the requests; once. Blocks until every stage process has ended, which it sees to.
  /// On success the output file is there, whole; on failure it is as it was before, and the error names the
  /// stage that failed first. A replay succeeds when each request has come to an end: the report says which
  /// failed. The calling thread must live as long: the stages die with it.
  virtual Result<PipelineReport> run(PipelineObserver& observer) = 0;
};

/// The pipeline that replays this model: "qwen3_omni_moe" for "Qwen/Qwen3-Omni-30B-A3B-Instruct", also as the
/// last part of a path. `invalid_argument` names the models that there are.
STAGEWIRE_API Result<std::string> pipeline_of_model(std::string_view model);
/// Whether the pipeline of this name is a replay. False for names that are none.
STAGEWIRE_API bool is_replay(std::string_view pipeline);

/// The life of a stage process, on the other side of `pipeline_fd` (which it takes); returns the exit status.
STAGEWIRE_API int run_stage_process(int pipeline_fd);

}  // namespace stagewire
