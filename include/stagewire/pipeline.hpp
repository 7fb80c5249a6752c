// A pipeline of stage processes on this host, started and watched from one place: what `stagewire serve`
// runs.
//
//   auto pipeline = Pipeline::create({.plan = plan, .input = "in.wav", .output = "out.wav"});   // checks,
//   starts nothing auto report = (*pipeline)->run(observer); // blocks until the end
//
// Each stage of the plan becomes a process, each edge a connector at both ends. The plan's `pipeline` names
// what the stages do ("speech" when it names nothing); docs/serve.md describes it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "stagewire/connector.hpp"
#include "stagewire/deploy.hpp"
#include "stagewire/result.hpp"

namespace stagewire {

enum class Rate {
  max,  ///< as fast as the stages go
  real  ///< the first stage gives its audio out as a microphone would
};

struct PipelineOptions {
  DeployPlan plan;
  std::string input;
  std::string output;
  std::string stats_json;  ///< file for the report; empty = none
  Rate rate = Rate::max;
  Milliseconds timeout{
      60'000};  ///< the longest that nothing may happen: to a stage that waits, and altogether
  /// What to run for a stage: its program must call run_stage_process() with the number that follows
  /// `--pipeline-fd`;
  /// "--stage-id N --pipeline-fd K" is appended.
  std::vector<std::string> stage_command{"/proc/self/exe", "serve"};
  int stop_fd = -1;  ///< readable = end everything (`cancelled`); borrowed, not read
};

struct EdgeReport {
  int from_stage = 0;
  int to_stage = 0;
  std::string connector;                    ///< its name in the plan
  RouteCounters eager, lease, read, write;  ///< how the chunks came
  std::string route_reason;
  std::uint64_t chunks = 0;
  std::uint64_t bytes = 0;
  double mb_per_s = 0;  ///< bytes over the time from the request's start to the edge's last chunk, 1e6
  double latency_p50_us = 0, latency_p90_us = 0, latency_p99_us = 0;  ///< from put to ready

  STAGEWIRE_API std::string route() const;  ///< "eager", or "eager 118, read 2" when there were several
};

struct PipelineReport {
  std::string request_id;
  std::string input;
  std::string output;
  std::vector<EdgeReport> edges;  ///< in the order of the stages
  double audio_seconds = 0;
  double run_seconds = 0;           ///< from the request's start to its last sample written
  double first_packet_seconds = 0;  ///< from the request's start to its first sample written
  double real_time_factor() const { return audio_seconds > 0 ? run_seconds / audio_seconds : 0; }
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
};

class Pipeline {
 public:
  /// Checks the plan, the input and the output; starts nothing and leaves nothing. Errors here are the
  /// caller's: what was asked for cannot be run.
  STAGEWIRE_API static Result<std::unique_ptr<Pipeline>> create(const PipelineOptions& options);
  virtual ~Pipeline() = default;

  /// Runs the request; once. Blocks until every stage process has ended, which it sees to. On success the
  /// output file is there, whole; on failure it is as it was before, and the error names the stage that
  /// failed first. The calling thread must live as long: the stages die with it.
  virtual Result<PipelineReport> run(PipelineObserver& observer) = 0;
};

/// The life of a stage process, on the other side of `pipeline_fd` (which it takes); returns the exit status.
STAGEWIRE_API int run_stage_process(int pipeline_fd);

}  // namespace stagewire
