#include "pipeline/several_hosts.hpp"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "base/text.hpp"
#include "control/host_address.hpp"
#include "pipeline/node_identity.hpp"
#include "pipeline/plan_digest.hpp"

namespace stagewire::pipeline {
namespace {

constexpr Milliseconds kLongest{std::chrono::hours(24)};
constexpr int kHighestPort = 65'535;

Status check_time(Milliseconds time, std::string_view name) {
  if (time > Milliseconds(0) && time <= kLongest) return {};
  return base::error(ErrorCode::invalid_argument, name, " is ", time.count(), " ms, it must be 1 to ",
                     kLongest.count());
}

std::string random_instance() {
  std::uint64_t number = 0;
  static_cast<void>(::getrandom(&number, sizeof number, 0));
  return base::text(::getpid(), "-", number);
}

Result<Hello> hello_of(const PipelineOptions& options, const PipelineDefinition& definition) {
  const NodeIdentity identity = node_identity();
  Hello hello;
  hello.release = STAGEWIRE_VERSION;
  hello.name = identity.name;
  hello.pid = ::getpid();
  hello.instance = random_instance();
  hello.boot_id = identity.boot_id;
  hello.network = identity.network;
  hello.pipeline = definition.name;
  hello.stages = options.node->stage_ids;
  hello.plan = plan_digest(options.plan);
  auto terms = replay_terms(options);
  if (!terms.ok()) return terms.error();
  hello.options = *std::move(terms);
  return hello;
}

}  // namespace

Status check_node(const NodeOptions& node, const PipelineDefinition& definition,
                  const std::vector<const StagePlan*>& chain) {
  if (!definition.is_replay()) {
    return base::error(ErrorCode::invalid_argument, "the pipeline \"", definition.name,
                       "\" turns one file into another and runs on one host: only replays run on several");
  }
  std::vector<int> all;
  for (const StagePlan* stage : chain) all.push_back(stage->stage_id);
  for (const int stage : node.stage_ids) {
    if (std::find(all.begin(), all.end(), stage) == all.end())
      return base::error(ErrorCode::invalid_argument, "there is no stage ", stage, ", the plan has ",
                         stage_list(all));
    if (std::count(node.stage_ids.begin(), node.stage_ids.end(), stage) > 1)
      return base::error(ErrorCode::invalid_argument, "stage ", stage, " is named twice");
  }
  if (node.stage_ids.empty()) return base::error(ErrorCode::invalid_argument, "no stage is to run here");
  const bool is_master =
      std::find(node.stage_ids.begin(), node.stage_ids.end(), all.front()) != node.stage_ids.end();
  if (node.master_port < (is_master ? 0 : 1) || node.master_port > kHighestPort) {
    return base::error(ErrorCode::invalid_argument, "the master's port is ", node.master_port,
                       ", it must be 1 to ", kHighestPort, ", or on the master 0 for any free one");
  }
  if (is_master && node.headless) {
    return base::error(ErrorCode::invalid_argument, "whoever runs stage ", all.front(),
                       " is the master and cannot be headless");
  }
  if (!is_master && node.master_address == "auto") {
    return base::error(ErrorCode::invalid_argument, "only the master, who runs stage ", all.front(),
                       ", may leave its address to be found (auto): name it");
  }
  if (Status status = check_time(node.start_timeout, "the start timeout"); !status.ok()) return status;
  return check_time(node.heartbeat_timeout, "the heartbeat timeout");
}

Result<std::unique_ptr<Master>> open_master(const PipelineOptions& options,
                                            const PipelineDefinition& definition,
                                            const std::vector<const StagePlan*>& chain,
                                            const std::string& secret_key) {
  auto hello = hello_of(options, definition);
  if (!hello.ok()) return hello.error();
  MasterOptions master;
  master.host = options.node->master_address;
  master.port = options.node->master_port;
  master.secret_key = secret_key;
  master.start_timeout = options.node->start_timeout;
  master.heartbeat_timeout = options.node->heartbeat_timeout;
  master.own = *std::move(hello);
  for (const StagePlan* stage : chain) master.stages.push_back(stage->stage_id);
  return Master::open(std::move(master));
}

Result<NodeSetup> node_setup(const PipelineOptions& options, const PipelineDefinition& definition,
                             const std::string& secret_key) {
  auto address = control::resolve_host(options.node->master_address);
  if (!address.ok()) return address.error().with_context("the master's address");
  auto hello = hello_of(options, definition);
  if (!hello.ok()) return hello.error();
  const std::vector<std::string>& stated = options.node->stated;
  std::erase_if(hello->options, [&](const auto& option) {
    return std::find(stated.begin(), stated.end(), option.first) == stated.end();
  });
  NodeSetup setup;
  setup.master_host = *std::move(address);
  setup.master_port = options.node->master_port;
  setup.secret_key = secret_key;
  setup.start_timeout = options.node->start_timeout;
  setup.hello = *std::move(hello);
  setup.command = options.stage_command;
  setup.stop_fd = options.stop_fd;
  return setup;
}

Result<Begin> begin_of(const PipelineOptions& options, const std::string& request_id) {
  auto digest = trace_digest(options.replay.trace);
  if (!digest.ok()) return digest.error();
  Begin begin;
  begin.request_id = request_id;
  begin.replay = options.replay;
  begin.trace_digest = *std::move(digest);
  begin.real_time = options.rate == Rate::real;
  begin.speed = options.speed;
  begin.timeout_ms = options.timeout.count();
  return begin;
}

Status take_over(const Begin& begin, PipelineOptions& options) {
  if (!(begin.speed > 0) || begin.timeout_ms <= 0)
    return base::error(ErrorCode::corrupt, "the master sends a speed or a timeout that is none");
  const std::string own_trace = options.replay.trace;
  options.replay = begin.replay;
  options.rate = begin.real_time ? Rate::real : Rate::max;
  options.speed = begin.speed;
  options.timeout = Milliseconds(begin.timeout_ms);
  if (begin.replay.trace.empty()) return {};
  if (!own_trace.empty()) options.replay.trace = own_trace;
  const auto digest = trace_digest(options.replay.trace);
  if (!digest.ok()) {
    return digest.error().with_context(
        "the master replays a trace, which every node needs: copy it to the same place, or give this node "
        "its own --trace");
  }
  if (*digest == begin.trace_digest) return {};
  return base::error(ErrorCode::invalid_argument, "the trace ", options.replay.trace,
                     " is another one than the master's: copy that one here");
}

RunEnd end_of(const Result<PipelineReport>& report) {
  RunEnd end;
  end.ok = report.ok();
  if (!report.ok()) {
    end.code = report.error().code();
    end.message = report.error().message();
    return end;
  }
  end.requests_failed = report->failed_count();
  end.requests_done = report->requests.size() - report->failed_count();
  end.audio_seconds = report->audio_seconds;
  return end;
}

void find_through_master(ConnectorConfig& connector) {
  if (!connector.sender_host.empty() && connector.sender_host != "auto" &&
      !control::is_loopback(connector.sender_host))
    return;  // a forwarder
  connector.sender_host = "auto";
  connector.sender_zmq_port = 0;
}

}  // namespace stagewire::pipeline
