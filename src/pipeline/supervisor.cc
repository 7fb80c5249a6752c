#include "pipeline/supervisor.hpp"

#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <climits>
#include <fstream>
#include <string>
#include <utility>

#include "base/text.hpp"
#include "base/thread.hpp"

namespace stagewire::pipeline {
namespace {

/// From being told to stop until being killed. The whole end takes less than the two seconds that
/// docs/serve.md names.
constexpr std::chrono::seconds kStopGrace{1};

/// How much longer than a stage waits for another one silence is borne: the stage that waited says for whom.
constexpr std::chrono::seconds kReportGrace{1};

/// Threads of a stage process at most, libzmq's included, which aborts the process when it gets none.
constexpr std::size_t kThreadsOfStage = 8;

/// Of a stage with both neighbours on this host, which has been seen with 38; `stagewire doctor` wants 64.
constexpr rlim_t kFewestDescriptors = 48;

constexpr int kChannelFd = 3;  // in the stage process, see ChildOptions::fds
constexpr int kOutputFd = 4;

int poll_timeout(base::Duration left) {
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::min<std::int64_t>(ms, INT_MAX));
}

/// Whether somebody has stopped it: SIGSTOP, a terminal, a debugger.
bool is_stopped(pid_t pid) {
  std::ifstream file(base::text("/proc/", pid, "/stat"));
  std::string stat;
  std::getline(file, stat);
  const auto name_end = stat.rfind(") ");  // "4711 (name) T ...": the name may hold anything
  if (name_end == std::string::npos || name_end + 2 >= stat.size()) return false;
  return stat[name_end + 2] == 'T' || stat[name_end + 2] == 't';
}

/// Stages that run out of descriptors on the way abort in libzmq, or wait for what never comes.
Status check_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kFewestDescriptors) return {};
  return base::error(ErrorCode::exhausted, "a process may have ", limit.rlim_cur,
                     " file descriptors (RLIMIT_NOFILE), a stage takes up to ", kFewestDescriptors,
                     ": raise the limit with 'ulimit -n 65536'");
}

}  // namespace

Supervisor::Supervisor(RunOptions options, PipelineObserver& observer)
    : options_(std::move(options)), observer_(observer) {}

Status Supervisor::run() {
  if (Status status = start_all(); !status.ok())
    return status;  // those that were started are killed with *this
  while (!all_ended()) {
    wait_for_events();
    advance();
    enforce_deadlines();
  }
  if (verdict_) return *verdict_;
  if (stopping_) return root_cause(outcomes());
  return {};
}

Status Supervisor::start_all() {
  if (Status status = check_descriptors(); !status.ok()) return status;
  if (Status status = base::check_threads(options_.stages.size() * (1 + kThreadsOfStage)); !status.ok())
    return status;
  for (const StageLaunch& launch : options_.stages) {
    if (Status status = start_stage(launch); !status.ok()) return status;
  }
  return {};
}

Status Supervisor::start_stage(const StageLaunch& launch) {
  auto channel = ControlChannel::create();
  if (!channel.ok()) return channel.error();
  Assignment assignment = launch.assignment;
  ChildOptions child;
  child.command = options_.command;
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
  stages_.emplace_back(launch.name, std::move(*process), std::move(channel->first));
  stages_.back().stage_id = assignment.stage_id;
  stages_.back().last_heard = base::steady_clock().now();
  return stages_.back().channel.send(assignment, /*wait=*/false);
}

void Supervisor::wait_for_events() {
  std::vector<pollfd> fds;
  for (const Stage& stage : stages_) {
    // A negative descriptor is passed over by poll().
    fds.push_back({stage.channel_open ? stage.channel.fd() : -1, POLLIN, 0});
    fds.push_back({stage.output_open ? stage.process.output_fd() : -1, POLLIN, 0});
    fds.push_back({stage.exit ? -1 : stage.process.exit_fd(), POLLIN, 0});
  }
  fds.push_back({stopping_ ? -1 : options_.stop_fd, POLLIN, 0});
  const auto now = base::steady_clock().now();
  const Stage* silent = longest_silent();
  auto deadline = stopping_ ? kill_at_ : base::Deadline::never();
  if (!stopping_ && silent != nullptr) deadline = base::Deadline::at(silent->last_heard + longest_silence());
  if (::poll(fds.data(), fds.size(), poll_timeout(deadline.left(now))) <= 0) return;
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    if (fds[3 * i].revents != 0) take_messages(i);
    if (fds[3 * i + 1].revents != 0) take_output(stages_[i]);
    if (fds[3 * i + 2].revents != 0) take_exit(i);
  }
  if (fds.back().revents != 0) {
    verdict_ = base::error(ErrorCode::cancelled, "the run was interrupted");
    stop_all();
  }
}

void Supervisor::take_messages(std::size_t index) {
  Stage& stage = stages_[index];
  for (;;) {
    auto message = stage.channel.receive();
    if (!message.ok()) {
      stage.channel_open = false;
      if (message.error().code() == ErrorCode::unavailable) return;  // its process ends, or has
      return refuse(stage, message.error());
    }
    if (!message->has_value()) return;
    stage.last_heard = base::steady_clock().now();
    take_message(index, std::move(**message));
  }
}

void Supervisor::take_message(std::size_t index, Message message) {
  Stage& stage = stages_[index];
  if (auto* ready = std::get_if<Ready>(&message)) {
    stage.ready = std::move(*ready);
  } else if (auto* done = std::get_if<Done>(&message)) {
    stage.done = std::move(*done);
  } else if (auto* failed = std::get_if<Failed>(&message)) {
    stage.failed = std::move(*failed);
    note_failure(stage);
  } else if (const auto* ended = std::get_if<RequestEnded>(&message)) {
    note_request(index, *ended);
  } else if (const auto* made = std::get_if<StepsMade>(&message)) {
    note_steps(stage, index, *made);
  } else if (const auto* progress = std::get_if<Progress>(&message);
             progress != nullptr && index + 1 == stages_.size()) {
    if (times_.first_packet_us == 0 && progress->audio_seconds > 0) times_.first_packet_us = progress->at_us;
    observer_.on_progress(progress->audio_seconds, options_.total_seconds,
                          static_cast<double>(progress->at_us - times_.started_us) / 1e6);
  }
}

void Supervisor::note_request(std::size_t index, const RequestEnded& ended) {
  Stage& stage = stages_[index];
  const auto first_failure = options_.board != nullptr
                                 ? options_.board->note(index, ended)
                                 : base::error(ErrorCode::corrupt, "it ended a request, and there is none");
  if (!first_failure.ok()) return refuse(stage, first_failure.error());
  if (*first_failure) {
    send_all(GiveUp{ended.request, base::text("it failed at stage ", stage.stage_id, " (", stage.name,
                                              "): ", ended.message)});
  }
  admit_requests();
}

void Supervisor::note_steps(Stage& stage, std::size_t index, const StepsMade& made) {
  const Status noted = options_.recording != nullptr
                           ? options_.recording->note(index, made)
                           : base::error(ErrorCode::corrupt, "it told of its steps, which nobody records");
  if (!noted.ok()) refuse(stage, noted.error());
}

/// What it said makes no sense.
void Supervisor::refuse(Stage& stage, const Error& error) {
  stage.failed = Failed{error.code(), error.message()};
  note_failure(stage);
}

void Supervisor::admit_requests() {
  const auto now = base::steady_clock().now().time_since_epoch();
  const auto now_us = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  if (const auto admit = options_.board->admit(now_us)) send_all(*admit);
}

void Supervisor::take_output(Stage& stage) {
  stage.output_open = stage.output.read_from(stage.process.output_fd(), [&](std::string_view line) {
    observer_.on_stage_output(stage.stage_id, line);
  });
}

void Supervisor::take_exit(std::size_t index) {
  Stage& stage = stages_[index];
  stage.exit = stage.process.try_reap();
  if (!stage.exit) return;
  if (stage.channel_open) take_messages(index);  // what it said last, if poll() saw its end first
  const bool as_told = finishing_ && stage.exit->success();
  if (!as_told && !stage.killed) note_failure(stage);
  if (stage.output_open) take_output(stage);
  stage.output_open = false;  // also when something that it started still holds the other end
}

void Supervisor::note_failure(Stage& stage) {
  if (stage.failure_order == 0) stage.failure_order = ++failures_;
}

void Supervisor::advance() {
  const auto all = [this](auto has) { return std::all_of(stages_.begin(), stages_.end(), has); };
  if (stopping_) return;
  if (failures_ != 0) {
    blame_stopped();
    stop_all();
  } else if (!started_ && all([](const Stage& stage) { return stage.ready.has_value(); })) {
    send_start();
  } else if (!finishing_ && all([](const Stage& stage) { return stage.done.has_value(); })) {
    finishing_ = true;
    send_all(Finish{});
    for (Stage& stage : stages_) stage.last_heard = base::steady_clock().now();
  }
}

void Supervisor::send_start() {
  started_ = true;
  const auto now = base::steady_clock().now();
  times_.started_us = std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count();
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    Start start;
    if (i > 0) start = {stages_[i - 1].ready->host, stages_[i - 1].ready->port};
    stages_[i].last_heard = now;
    // A stage that is gone shows it by its end.
    static_cast<void>(stages_[i].channel.send(start, /*wait=*/false));
  }
  if (options_.board != nullptr) admit_requests();
}

void Supervisor::send_all(const Message& message) {
  for (const Stage& stage : stages_) static_cast<void>(stage.channel.send(message, /*wait=*/false));
}

void Supervisor::stop_all() {
  stopping_ = true;
  kill_at_ = base::Deadline::after(kStopGrace);
  send_all(Stop{});
}

void Supervisor::enforce_deadlines() {
  const auto now = base::steady_clock().now();
  const Stage* silent = longest_silent();
  if (!stopping_ && silent != nullptr && now - silent->last_heard >= longest_silence()) {
    blame_stopped();
    if (!verdict_)
      verdict_ = base::error(ErrorCode::timeout, "nothing was heard from stage ", silent->stage_id, " (",
                             silent->name, ", pid ", silent->process.pid(), ") for ",
                             std::chrono::round<Milliseconds>(now - silent->last_heard).count(),
                             " ms (--timeout sets the limit)");
    stop_all();
  }
  if (stopping_ && kill_at_.passed(now)) {
    for (Stage& stage : stages_) {
      if (!stage.exit) {
        stage.killed = true;
        stage.process.kill();
      }
    }
    kill_at_ = base::Deadline::never();
  }
}

/// A stage that somebody has stopped is why others wait in vain, whoever of them says so first.
void Supervisor::blame_stopped() {
  for (const Stage& stage : stages_) {
    const bool is_other = stage.failed && !is_consequence(stage.failed->code);
    const bool has_died = stage.exit && stage.failure_order != 0 && !stage.failed;
    if (is_other || has_died) return;  // there is a reason besides
  }
  for (const Stage& stage : stages_) {
    if (stage.exit || !is_stopped(stage.process.pid())) continue;
    verdict_ = base::error(
        ErrorCode::timeout, "stage ", stage.stage_id, " (", stage.name, ", pid ", stage.process.pid(),
        ") is stopped, by SIGSTOP or a debugger, and the others wait "
        "for it in vain (--timeout sets the limit, ",
        options_.timeout.count(), " ms); 'kill -CONT ", stage.process.pid(), "' lets a stage go on");
    return;
  }
}

base::Duration Supervisor::longest_silence() const {
  return options_.timeout + kReportGrace;
}

bool Supervisor::all_ended() const {
  return std::all_of(stages_.begin(), stages_.end(), [](const Stage& stage) { return stage.ended(); });
}

/// Whether it is this stage's turn to say something, or to end.
bool Supervisor::is_awaited(const Stage& stage) const {
  if (stage.exit) return false;
  if (finishing_) return true;
  return started_ ? !stage.done : !stage.ready;
}

/// nullptr when no stage is awaited.
const Supervisor::Stage* Supervisor::longest_silent() const {
  const Stage* silent = nullptr;
  for (const Stage& stage : stages_) {
    if (is_awaited(stage) && (silent == nullptr || stage.last_heard < silent->last_heard)) silent = &stage;
  }
  return silent;
}

std::vector<StageOutcome> Supervisor::outcomes() const {
  std::vector<StageOutcome> result;
  for (const Stage& stage : stages_) {
    result.push_back({stage.stage_id, stage.name, stage.process.pid(), stage.failed, stage.failure_order,
                      stage.killed ? std::nullopt : stage.exit, stage.output.last_words()});
  }
  return result;
}

std::vector<Done> Supervisor::reports() const {
  std::vector<Done> result;
  for (const Stage& stage : stages_) {
    if (stage.done) result.push_back(*stage.done);
  }
  return result;
}

}  // namespace stagewire::pipeline
