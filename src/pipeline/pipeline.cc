// Pipeline: checks a request, has it run, puts the result in its place.
#include "stagewire/pipeline.hpp"

#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "base/text.hpp"
#include "pipeline/chain.hpp"
#include "pipeline/output_file.hpp"
#include "pipeline/pipelines.hpp"
#include "pipeline/supervisor.hpp"

namespace stagewire {
namespace pipeline {
namespace {

std::string make_request_id() {
  std::uint32_t number = 0;
  static_cast<void>(::getrandom(&number, sizeof number, 0));
  return base::text("serve-", ::getpid(), "-", number);
}

double seconds_between(std::int64_t from_us, std::int64_t to_us) {
  return static_cast<double>(to_us - from_us) / 1e6;
}

class PipelineImpl final : public Pipeline {
 public:
  PipelineImpl(PipelineOptions options, const PipelineDefinition& definition)
      : options_(std::move(options)), definition_(definition), request_id_(make_request_id()) {}

  /// Everything that create() checks.
  Status prepare();
  Result<PipelineReport> run(PipelineObserver& observer) override;

 private:
  RunOptions run_options() const;
  PipelineReport make_report(const RunTimes& times, const std::vector<Done>& stages) const;
  Status present(const PipelineReport& report);

  PipelineOptions options_;
  const PipelineDefinition& definition_;
  std::string request_id_;
  std::vector<const StagePlan*> chain_;  // in options_.plan
  double audio_seconds_ = 0;
  std::optional<OutputFile> output_;  // until presented
  std::optional<OutputFile> stats_;
};

Status PipelineImpl::prepare() {
  if (options_.timeout <= Milliseconds(0)) {
    return base::error(ErrorCode::invalid_argument, "the timeout must be above 0, it is ",
                       options_.timeout.count(), " ms");
  }
  auto chain = chain_of(options_.plan, definition_);
  if (!chain.ok()) return chain.error().with_context(options_.plan.file);
  chain_ = std::move(*chain);
  const auto audio_seconds = definition_.check_input(options_.input);
  if (!audio_seconds.ok()) return audio_seconds.error();
  audio_seconds_ = *audio_seconds;
  auto output = OutputFile::create(options_.output);
  if (!output.ok()) return output.error();
  output_.emplace(std::move(*output));
  if (options_.stats_json.empty()) return {};
  if (options_.stats_json == options_.output) {
    return base::error(ErrorCode::invalid_argument, "the output and the statistics cannot both be ",
                       options_.output);
  }
  auto stats = OutputFile::create(options_.stats_json);
  if (!stats.ok()) return stats.error();
  stats_.emplace(std::move(*stats));
  return {};
}

RunOptions PipelineImpl::run_options() const {
  RunOptions run;
  run.command = options_.stage_command;
  run.timeout = options_.timeout;
  run.total_seconds = audio_seconds_;
  run.stop_fd = options_.stop_fd;
  for (std::size_t i = 0; i < chain_.size(); ++i) {
    const bool last = i + 1 == chain_.size();
    StageLaunch launch;
    launch.name = definition_.stages[i].name;
    launch.environment = chain_[i]->env;
    launch.assignment.pipeline = definition_.name;
    launch.assignment.position = i;
    launch.assignment.stage_id = chain_[i]->stage_id;
    launch.assignment.upstream = i == 0 ? -1 : chain_[i - 1]->stage_id;
    launch.assignment.downstream = last ? -1 : chain_[i + 1]->stage_id;
    launch.assignment.request_id = request_id_;
    launch.assignment.input = options_.input;
    launch.assignment.output_fd = last ? output_->fd() : -1;
    launch.assignment.real_time = options_.rate == Rate::real;
    launch.assignment.timeout_ms = options_.timeout.count();
    launch.assignment.chunk_options = chain_[i]->chunk_options;
    launch.assignment.connector = *chain_[i]->connector;
    run.stages.push_back(std::move(launch));
  }
  return run;
}

Result<PipelineReport> PipelineImpl::run(PipelineObserver& observer) {
  if (!output_) return base::error(ErrorCode::closed, "a pipeline runs once");
  Supervisor supervisor(run_options(), observer);
  if (Status status = supervisor.run(); !status.ok()) {
    output_.reset();
    stats_.reset();
    return status.error();
  }
  PipelineReport report = make_report(supervisor.times(), supervisor.reports());
  if (Status status = present(report); !status.ok()) return status.error();
  return report;
}

PipelineReport PipelineImpl::make_report(const RunTimes& times, const std::vector<Done>& stages) const {
  PipelineReport report;
  report.request_id = request_id_;
  report.input = options_.input;
  report.output = options_.output;
  report.audio_seconds = audio_seconds_;
  report.run_seconds = seconds_between(times.started_us, stages.back().at_us);
  report.first_packet_seconds = seconds_between(times.started_us, times.first_packet_us);
  for (std::size_t i = 1; i < stages.size(); ++i) {
    const Done& done = stages[i];
    EdgeReport edge;
    edge.from_stage = chain_[i - 1]->stage_id;
    edge.to_stage = chain_[i]->stage_id;
    edge.connector = edge_between(options_.plan, edge.from_stage, edge.to_stage).connector;
    edge.eager = done.eager;
    edge.lease = done.lease;
    edge.read = done.read;
    edge.write = done.write;
    edge.route_reason = done.route_reason;
    edge.chunks = done.chunks;
    edge.bytes = done.bytes;
    const double seconds = seconds_between(times.started_us, done.last_chunk_at_us);
    edge.mb_per_s = seconds > 0 ? static_cast<double>(done.bytes) / 1e6 / seconds : 0;
    edge.latency_p50_us = done.latency_p50_us;
    edge.latency_p90_us = done.latency_p90_us;
    edge.latency_p99_us = done.latency_p99_us;
    report.edges.push_back(std::move(edge));
  }
  return report;
}

Status PipelineImpl::present(const PipelineReport& report) {
  OutputFile output = std::move(*std::exchange(output_, std::nullopt));
  if (stats_) {
    const std::string text = to_json(report);
    OutputFile stats = std::move(*std::exchange(stats_, std::nullopt));
    if (Status status = stats.write(text); !status.ok()) return status;
    if (Status status = stats.present(); !status.ok()) return status;
  }
  return output.present();
}

}  // namespace
}  // namespace pipeline

Result<std::unique_ptr<Pipeline>> Pipeline::create(const PipelineOptions& options) {
  const auto definition = pipeline::find_pipeline(options.plan.pipeline);
  if (!definition.ok()) return definition.error().with_context(options.plan.file);
  auto made = std::make_unique<pipeline::PipelineImpl>(options, **definition);
  if (Status status = made->prepare(); !status.ok()) return status.error();
  return std::unique_ptr<Pipeline>(std::move(made));
}

}  // namespace stagewire
