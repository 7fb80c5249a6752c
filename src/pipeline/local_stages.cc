#include "pipeline/local_stages.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "base/check.hpp"
#include "base/text.hpp"
#include "base/thread.hpp"

namespace stagewire::pipeline {
namespace {

/// Threads of a stage process at most, libzmq's included, which aborts the process when it gets none.
constexpr std::size_t kThreadsOfStage = 8;

/// Of a stage with both neighbours on this host, which has been seen with 38; `stagewire doctor` wants 64.
constexpr rlim_t kFewestDescriptors = 48;

constexpr int kChannelFd = 3;  // in the stage process, see ChildOptions::fds
constexpr int kOutputFd = 4;
constexpr std::size_t kFdsOfStage = 3;  // that watch() adds

/// Stages that run out of descriptors on the way abort in libzmq, or wait for what never comes.
Status check_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kFewestDescriptors) return {};
  return base::error(ErrorCode::exhausted, "a process may have ", limit.rlim_cur,
                     " file descriptors (RLIMIT_NOFILE), a stage takes up to ", kFewestDescriptors,
                     ": raise the limit with 'ulimit -n 65536'");
}

}  // namespace

Status LocalStages::start(const std::vector<StageLaunch>& launches, const std::vector<std::string>& command) {
  if (Status status = check_descriptors(); !status.ok()) return status;
  if (Status status = base::check_threads(launches.size() * (1 + kThreadsOfStage)); !status.ok())
    return status;
  for (const StageLaunch& launch : launches) {
    if (Status status = start_stage(launch, command); !status.ok()) {
      stages_.clear();  // kills those that were started
      return status;
    }
  }
  return {};
}

Status LocalStages::start_stage(const StageLaunch& launch, const std::vector<std::string>& command) {
  auto channel = ControlChannel::create();
  if (!channel.ok()) return channel.error();
  Assignment assignment = launch.assignment;
  ChildOptions child;
  child.command = command;
  for (const std::string& word : {std::string("--stage-id"), std::to_string(assignment.stage_id),
                                  std::string("--pipeline-fd"), std::to_string(kChannelFd)}) {
    child.command.push_back(word);
  }
  child.environment = launch.environment;
  child.fds = {channel->second.get()};
  if (assignment.output_fd >= 0) {
    child.fds.push_back(assignment.output_fd);
    assignment.output_fd = kOutputFd;
  }
  auto process = ChildProcess::start(child);
  if (!process.ok()) return process.error();
  stages_.emplace_back(assignment.position, std::move(*process), std::move(channel->first));
  return stages_.back().channel.send(assignment, /*wait=*/false);
}

std::vector<std::size_t> LocalStages::positions() const {
  std::vector<std::size_t> result;
  for (const Stage& stage : stages_) result.push_back(stage.position);
  return result;
}

LocalStages::Stage& LocalStages::at(std::size_t position) {
  const auto found = std::find_if(stages_.begin(), stages_.end(),
                                  [&](const Stage& stage) { return stage.position == position; });
  STAGEWIRE_CHECK(found != stages_.end(), "a stage of this host");
  return *found;
}

bool LocalStages::is_stopped(std::size_t position) const {
  if (at(position).ended) return false;
  std::ifstream file(base::text("/proc/", pid(position), "/stat"));
  std::string stat;
  std::getline(file, stat);
  const auto name_end = stat.rfind(") ");  // "4711 (name) T ...": the name may hold anything
  if (name_end == std::string::npos || name_end + 2 >= stat.size()) return false;
  return stat[name_end + 2] == 'T' || stat[name_end + 2] == 't';
}

void LocalStages::send(std::size_t position, const Message& message) {
  static_cast<void>(at(position).channel.send(message, /*wait=*/false));
}

void LocalStages::send_all(const Message& message) {
  for (const Stage& stage : stages_) send(stage.position, message);
}

void LocalStages::kill_all() {
  for (Stage& stage : stages_) stage.process.kill();
}

bool LocalStages::all_ended() const {
  return std::all_of(stages_.begin(), stages_.end(), [](const Stage& stage) { return stage.ended; });
}

void LocalStages::watch(std::vector<pollfd>& fds) const {
  for (const Stage& stage : stages_) {
    // A negative descriptor is passed over by poll().
    fds.push_back({stage.channel_open ? stage.channel.fd() : -1, POLLIN, 0});
    fds.push_back({stage.output_open ? stage.process.output_fd() : -1, POLLIN, 0});
    fds.push_back({stage.ended ? -1 : stage.process.exit_fd(), POLLIN, 0});
  }
}

void LocalStages::serve(std::span<const pollfd> fds, StageSink& sink) {
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const auto own = fds.subspan(kFdsOfStage * i, kFdsOfStage);
    if (own[0].revents != 0) take_messages(stages_[i], sink);
    if (own[1].revents != 0) take_output(stages_[i], sink);
    if (own[2].revents != 0) take_exit(stages_[i], sink);
  }
}

void LocalStages::take_messages(Stage& stage, StageSink& sink) {
  while (stage.channel_open) {
    auto message = stage.channel.receive();
    if (message.ok()) {
      if (!message->has_value()) return;
      sink.on_message(stage.position, std::move(**message));
      continue;
    }
    stage.channel_open = false;
    // When the other end is gone, its process ends, or has.
    if (message.error().code() != ErrorCode::unavailable) sink.on_nonsense(stage.position, message.error());
  }
}

void LocalStages::take_output(Stage& stage, StageSink& sink) {
  stage.output_open = stage.output.read_from(
      stage.process.output_fd(), [&](std::string_view line) { sink.on_output(stage.position, line); });
}

void LocalStages::take_exit(Stage& stage, StageSink& sink) {
  const auto status = stage.process.try_reap();
  if (!status) return;
  take_messages(stage, sink);  // what it said last, if poll() saw its end first
  if (stage.output_open) take_output(stage, sink);
  stage.output_open = false;  // also when something that it started still holds the other end
  stage.channel_open = false;
  stage.ended = true;
  sink.on_exit(stage.position, {*status, stage.output.last_words()});
}

}  // namespace stagewire::pipeline
