// Pipeline: checks a request, has it run, puts the result in its place.
#include "stagewire/pipeline.hpp"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/text.hpp"
#include "pipeline/chain.hpp"
#include "pipeline/host_check.hpp"
#include "pipeline/master.hpp"
#include "pipeline/memory_check.hpp"
#include "pipeline/node.hpp"
#include "pipeline/output_file.hpp"
#include "pipeline/pipelines.hpp"
#include "pipeline/plan_digest.hpp"
#include "pipeline/replay_report.hpp"
#include "pipeline/secrecy.hpp"
#include "pipeline/several_hosts.hpp"
#include "pipeline/step_recording.hpp"
#include "pipeline/supervisor.hpp"

namespace stagewire {
namespace pipeline {
namespace {

std::string make_request_id() {
  std::uint32_t number = 0;
  static_cast<void>(::getrandom(&number, sizeof number, 0));
  return base::text("serve-", ::getpid(), "-", number);
}

/// For the pools, which lie in reserved huge pages where there are any.
memory::AvailableMemory memory_left() {
  memory::AvailableMemory available = memory::available_memory();
  available.bytes += std::min(memory::free_huge_pages(), UINT64_MAX - available.bytes);
  return available;
}

class PipelineImpl final : public Pipeline {
 public:
  PipelineImpl(PipelineOptions options, const PipelineDefinition& definition)
      : options_(std::move(options)), definition_(definition), request_id_(make_request_id()) {}

  /// Everything that create() checks.
  Status prepare();
  Result<PipelineReport> run(PipelineObserver& observer) override;

 private:
  Status prepare_node();
  Status prepare_file();
  Status prepare_replay();
  Status prepare_reports();
  Status check_outputs() const;
  Status check_not_read(const OutputFile& written) const;
  RunOptions run_options();
  std::vector<StageLaunch> launches() const;
  bool is_here(const StagePlan& stage) const;
  bool is_master() const { return !options_.node || is_here(*chain_.front()); }
  Result<PipelineReport> run_all(PipelineObserver& observer);
  Result<PipelineReport> run_node(PipelineObserver& observer);
  Status agree(const Begin& begin);
  Assignment assignment_of(std::size_t position) const;
  PipelineReport make_report(const RunTimes& times, const std::vector<Done>& stages) const;
  Status present(const PipelineReport& report, const RunTimes& times);
  Status write_trace(const RunTimes& times);

  PipelineOptions options_;
  const PipelineDefinition& definition_;
  std::string request_id_;
  std::vector<const StagePlan*> chain_;  // in options_.plan
  std::string secret_key_;               // of the nodes
  std::unique_ptr<Master> master_;       // of a run over several hosts, on the master
  double audio_seconds_ = 0;
  RequestPlan requests_;                    // of a replay
  std::optional<RequestBoard> board_;       // of a replay
  std::optional<StepRecording> recording_;  // of a replay that becomes a trace
  // Until presented:
  std::optional<OutputFile> output_;  // of a pipeline from file to file
  std::optional<OutputFile> stats_;
  std::optional<OutputFile> trace_;  // that is recorded
  bool has_run_ = false;
};

Status PipelineImpl::prepare() {
  if (options_.timeout <= Milliseconds(0)) {
    return base::error(ErrorCode::invalid_argument, "the timeout must be above 0, it is ",
                       options_.timeout.count(), " ms");
  }
  auto chain = chain_of(options_.plan, definition_);
  if (!chain.ok()) return chain.error().with_context(options_.plan.file);
  chain_ = std::move(*chain);
  if (Status status = options_.node ? prepare_node() : secure_children(options_.plan); !status.ok())
    return status;
  std::vector<const StagePlan*> here;
  std::copy_if(chain_.begin(), chain_.end(), std::back_inserter(here),
               [this](const StagePlan* stage) { return is_here(*stage); });
  if (Status status = check_hosts(here); !status.ok()) return status;
  if (Status status = check_memory(here, memory_left()); !status.ok()) return status;
  if (!(options_.speed > 0)) {
    return base::error(ErrorCode::invalid_argument, "the speed must be above 0, it is ", options_.speed);
  }
  if (!is_master()) return {};  // what the requests are the master says
  if (Status status = definition_.is_replay() ? prepare_replay() : prepare_file(); !status.ok())
    return status;
  if (Status status = prepare_reports(); !status.ok()) return status;
  if (Status status = check_outputs(); !status.ok()) return status;
  if (!options_.node) return {};
  auto master = open_master(options_, definition_, chain_, secret_key_);
  if (!master.ok()) return master.error();
  master_ = std::move(*master);
  return {};
}

bool PipelineImpl::is_here(const StagePlan& stage) const {
  if (!options_.node) return true;
  const std::vector<int>& here = options_.node->stage_ids;
  return std::find(here.begin(), here.end(), stage.stage_id) != here.end();
}

Status PipelineImpl::prepare_node() {
  if (Status status = check_node(*options_.node, definition_, chain_); !status.ok()) return status;
  if (!is_master() && !options_.stats_json.empty()) {
    return base::error(ErrorCode::invalid_argument, "the statistics are the master's, who runs stage ",
                       chain_.front()->stage_id, ": ask for them there");
  }
  if (!options_.record_trace.empty()) {
    return base::error(ErrorCode::invalid_argument,
                       "a trace is recorded of a run on one host: leave out --record-trace, ",
                       "or --stage-id");
  }
  auto key = secure_nodes(options_.plan, *options_.node);
  if (!key.ok()) return key.error();
  secret_key_ = *std::move(key);
  return {};
}

Status PipelineImpl::prepare_file() {
  if (!options_.record_trace.empty()) {
    return base::error(ErrorCode::invalid_argument, "the pipeline \"", definition_.name,
                       "\" is no replay: it has no trace to record");
  }
  const auto audio_seconds = definition_.check_input(options_.input);
  if (!audio_seconds.ok()) return audio_seconds.error();
  audio_seconds_ = *audio_seconds;
  auto output = OutputFile::create(options_.output);
  if (!output.ok()) return output.error();
  output_.emplace(std::move(*output));
  return {};
}

Status PipelineImpl::prepare_replay() {
  if (!options_.input.empty() || !options_.output.empty()) {
    return base::error(ErrorCode::invalid_argument, "the pipeline \"", definition_.name,
                       "\" is a replay: it has no input and no output file");
  }
  const bool recorded = !options_.record_trace.empty();
  auto requests = definition_.plan_requests(options_.replay, chain_.front()->async_chunk, recorded);
  if (!requests.ok()) return requests.error();
  requests_ = std::move(*requests);
  for (const PlannedRequest& request : requests_.requests) audio_seconds_ += request.audio_seconds;
  board_.emplace(requests_.requests.size(), requests_.concurrency, chain_.size());
  if (recorded) recording_.emplace(requests_.requests.size());
  return {};
}

Status PipelineImpl::prepare_reports() {
  for (const auto& [path, file] :
       {std::pair(&options_.stats_json, &stats_), std::pair(&options_.record_trace, &trace_)}) {
    if (path->empty()) continue;
    auto created = OutputFile::create(*path);
    if (!created.ok()) return created.error();
    file->emplace(std::move(*created));
  }
  return {};
}

/// Nothing that the run reads or writes is replaced by something else that it writes, by whatever name.
Status PipelineImpl::check_outputs() const {
  struct Written {
    const char* what;
    const std::optional<OutputFile>& file;
  };
  const std::array<Written, 3> all{{{"output", output_}, {"statistics", stats_}, {"recorded trace", trace_}}};
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i].file) continue;
    if (Status status = check_not_read(*all[i].file); !status.ok()) return status;
    for (std::size_t j = 0; j < i; ++j) {
      if (!all[j].file || !all[j].file->is_same_place(*all[i].file)) continue;
      return base::error(ErrorCode::invalid_argument, "the ", all[j].what, " ", all[j].file->path(),
                         " and the ", all[i].what, " ", all[i].file->path(),
                         " are the same file: choose another name for one of them");
    }
  }
  return {};
}

Status PipelineImpl::check_not_read(const OutputFile& written) const {
  std::vector<std::string> read = options_.plan.files_read;
  for (const std::string& file : {options_.plan.file, options_.input, options_.replay.trace})
    if (!file.empty()) read.push_back(file);
  for (const std::string& file : read) {
    if (!written.would_replace(file)) continue;
    return base::error(ErrorCode::invalid_argument, "cannot write ", written.path(), ": it is ", file,
                       ", which this run reads: choose another name");
  }
  return {};
}

RunOptions PipelineImpl::run_options() {
  RunOptions run;
  run.command = options_.stage_command;
  run.timeout = options_.timeout;
  run.total_seconds = audio_seconds_;
  run.stop_fd = options_.stop_fd;
  run.stages = launches();
  for (std::size_t i = 0; i < chain_.size(); ++i)
    run.names.push_back({chain_[i]->stage_id, std::string(definition_.stages[i].name)});
  if (board_) run.board = &*board_;
  if (recording_) run.recording = &*recording_;
  if (master_) {
    run.others = master_.get();
    run.check_meeting = [this](const auto& where) { return master_->check_meeting(where); };
  }
  return run;
}

std::vector<StageLaunch> PipelineImpl::launches() const {
  std::vector<StageLaunch> result;
  for (std::size_t i = 0; i < chain_.size(); ++i) {
    if (!is_here(*chain_[i])) continue;
    StageLaunch launch;
    launch.name = definition_.stages[i].name;
    launch.environment = chain_[i]->env;
    launch.assignment = assignment_of(i);
    if (options_.node) find_through_master(launch.assignment.connector);
    result.push_back(std::move(launch));
  }
  return result;
}

Assignment PipelineImpl::assignment_of(std::size_t position) const {
  const StagePlan& stage = *chain_[position];
  const bool last = position + 1 == chain_.size();
  Assignment assignment;
  assignment.pipeline = definition_.name;
  assignment.position = position;
  assignment.stage_id = stage.stage_id;
  assignment.upstream = position == 0 ? -1 : chain_[position - 1]->stage_id;
  assignment.downstream = last ? -1 : chain_[position + 1]->stage_id;
  assignment.request_id = request_id_;
  assignment.input = options_.input;
  assignment.output_fd = last && output_ ? output_->fd() : -1;
  assignment.real_time = options_.rate == Rate::real;
  assignment.speed = options_.speed;
  assignment.async_chunk = stage.async_chunk;
  assignment.active_stream_window = options_.plan.active_stream_window;
  assignment.record_steps = recording_.has_value();
  assignment.replay = options_.replay;
  assignment.timeout_ms = options_.timeout.count();
  assignment.chunk_options = stage.chunk_options;
  assignment.connector = *stage.connector;
  return assignment;
}

Result<PipelineReport> PipelineImpl::run(PipelineObserver& observer) {
  if (std::exchange(has_run_, true)) return base::error(ErrorCode::closed, "a pipeline runs once");
  if (!is_master()) return run_node(observer);
  auto report = run_all(observer);
  if (master_) master_->end(end_of(report));
  if (!report.ok()) {
    for (auto* file : {&output_, &stats_, &trace_}) file->reset();
  }
  return report;
}

Result<PipelineReport> PipelineImpl::run_all(PipelineObserver& observer) {
  if (master_) {
    auto begin = begin_of(options_, request_id_);
    if (!begin.ok()) return begin.error();
    const auto note = [&observer](const std::string& line) { observer.on_note(line); };
    if (Status status = master_->gather(*begin, options_.stop_fd, note); !status.ok()) return status.error();
  }
  Supervisor supervisor(run_options(), observer);
  if (Status status = supervisor.run(); !status.ok()) return status.error();
  PipelineReport report = make_report(supervisor.times(), supervisor.reports());
  if (Status status = present(report, supervisor.times()); !status.ok()) return status.error();
  return report;
}

/// Takes over what the master says of the replay.
Status PipelineImpl::agree(const Begin& begin) {
  if (Status status = take_over(begin, options_); !status.ok()) return status;
  request_id_ = begin.request_id;
  return {};
}

Result<PipelineReport> PipelineImpl::run_node(PipelineObserver& observer) {
  auto setup = node_setup(options_, definition_, secret_key_);
  if (!setup.ok()) return setup.error();
  setup->launches = [this](const Begin& begin) -> Result<std::vector<StageLaunch>> {
    if (Status status = agree(begin); !status.ok()) return status.error();
    return launches();
  };
  const auto end = Node(std::move(*setup), observer).run();
  if (!end.ok()) return end.error();
  PipelineReport report;
  report.pipeline = definition_.name;
  report.request_id = request_id_;
  report.audio_seconds = end->audio_seconds;
  report.node = NodeReport{options_.node->stage_ids, end->requests_done, end->requests_failed};
  return report;
}

PipelineReport PipelineImpl::make_report(const RunTimes& times, const std::vector<Done>& stages) const {
  PipelineReport report;
  report.pipeline = definition_.name;
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
    edge.most_held = done.most_held;
    const double seconds = seconds_between(times.started_us, done.last_chunk_at_us);
    edge.mb_per_s = seconds > 0 ? static_cast<double>(done.bytes) / 1e6 / seconds : 0;
    edge.latency_p50_us = done.latency_p50_us;
    edge.latency_p90_us = done.latency_p90_us;
    edge.latency_p99_us = done.latency_p99_us;
    report.edges.push_back(std::move(edge));
  }
  if (board_) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < chain_.size(); ++i)
      names.push_back(base::text("stage ", chain_[i]->stage_id, " (", definition_.stages[i].name, ")"));
    const double speed = options_.rate == Rate::real ? options_.speed : 0;
    add_requests(requests_, board_->outcomes(), names, {times.started_us, speed}, report);
  }
  return report;
}

/// Everything is written before anything is presented.
Status PipelineImpl::present(const PipelineReport& report, const RunTimes& times) {
  if (stats_) {
    if (Status status = stats_->write(to_json(report)); !status.ok()) return status;
  }
  if (Status status = write_trace(times); !status.ok()) return status;
  for (auto* file : {&stats_, &trace_, &output_}) {
    if (!*file) continue;
    OutputFile presented = std::move(*std::exchange(*file, std::nullopt));
    if (Status status = presented.present(); !status.ok()) return status;
  }
  return {};
}

/// Without a request that was done there is none: a trace has at least one.
Status PipelineImpl::write_trace(const RunTimes& times) {
  if (!trace_) return {};
  const auto& outcomes = board_->outcomes();
  const bool any_done = std::any_of(outcomes.begin(), outcomes.end(),
                                    [](const RequestOutcome& outcome) { return !outcome.failure; });
  if (any_done) return recording_->write(definition_, requests_, outcomes, times.started_us, *trace_);
  trace_.reset();
  return {};
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
