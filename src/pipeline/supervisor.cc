#include "pipeline/supervisor.hpp"

#include <poll.h>

#include <algorithm>
#include <climits>
#include <string>
#include <utility>

#include "base/text.hpp"

namespace stagewire::pipeline {
namespace {

/// From being told to stop until being killed. The whole end takes less than the two seconds that
/// docs/serve.md names.
constexpr std::chrono::seconds kStopGrace{1};

/// How much longer than a stage waits for another one silence is borne: the stage that waited says for whom.
constexpr std::chrono::seconds kReportGrace{1};

int poll_timeout(base::Duration left) {
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::min<std::int64_t>(ms, INT_MAX));
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
  if (Status status = local_.start(options_.stages, options_.command); !status.ok()) return status;
  groups_ = {&local_};
  if (options_.others != nullptr) groups_.push_back(options_.others);
  stages_.resize(options_.names.size());
  const auto now = base::steady_clock().now();
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    stages_[i].name = options_.names[i];
    stages_[i].last_heard = now;
  }
  for (StageGroup* group : groups_) {
    for (const std::size_t position : group->positions()) stages_[position].group = group;
  }
  return {};
}

void Supervisor::wait_for_events() {
  std::vector<pollfd> fds{{stopping_ ? -1 : options_.stop_fd, POLLIN, 0}};
  std::vector<std::size_t> starts;
  auto wake_at = stopping_ ? kill_at_.when() : base::TimePoint::max();
  if (const auto silent = longest_silent(); !stopping_ && silent)
    wake_at = stages_[*silent].last_heard + longest_silence();
  for (const StageGroup* group : groups_) {
    starts.push_back(fds.size());
    group->watch(fds);
    wake_at = std::min(wake_at, group->due().when());
  }
  const auto left = base::Deadline::at(wake_at).left(base::steady_clock().now());
  if (::poll(fds.data(), fds.size(), poll_timeout(left)) < 0) return;
  starts.push_back(fds.size());
  for (std::size_t i = 0; i < groups_.size(); ++i)
    groups_[i]->serve(std::span(fds).subspan(starts[i], starts[i + 1] - starts[i]), *this);
  if (fds.front().revents != 0) {
    verdict_ = base::error(ErrorCode::cancelled, "the run was interrupted");
    stop_all();
  }
}

void Supervisor::on_message(std::size_t position, Message message) {
  stages_[position].last_heard = base::steady_clock().now();
  take_message(position, std::move(message));
}

void Supervisor::on_nonsense(std::size_t position, const Error& error) {
  refuse(stages_[position], error);
}

void Supervisor::on_output(std::size_t position, std::string_view line) {
  observer_.on_stage_output(stages_[position].name.stage_id, line);
}

void Supervisor::on_exit(std::size_t position, const StageExit& exit) {
  Stage& stage = stages_[position];
  stage.exit = exit;
  const bool as_told = finishing_ && exit.status.success();
  if (!as_told && !stage.killed) note_failure(stage);
}

void Supervisor::on_lost(std::span<const std::size_t> positions, const Error& reason) {
  // What the others say of it, perhaps sooner, are its consequences.
  if (!verdict_ && !has_reason()) verdict_ = reason;
  for (const std::size_t position : positions) {
    stages_[position].lost = true;
    note_failure(stages_[position]);
  }
}

void Supervisor::take_message(std::size_t position, Message message) {
  Stage& stage = stages_[position];
  if (auto* ready = std::get_if<Ready>(&message)) {
    stage.ready = std::move(*ready);
  } else if (auto* done = std::get_if<Done>(&message)) {
    stage.done = std::move(*done);
  } else if (auto* failed = std::get_if<Failed>(&message)) {
    stage.failed = std::move(*failed);
    note_failure(stage);
  } else if (const auto* ended = std::get_if<RequestEnded>(&message)) {
    note_request(position, *ended);
  } else if (const auto* made = std::get_if<StepsMade>(&message)) {
    note_steps(stage, position, *made);
  } else if (const auto* progress = std::get_if<Progress>(&message);
             progress != nullptr && position + 1 == stages_.size()) {
    if (times_.first_packet_us == 0 && progress->audio_seconds > 0) times_.first_packet_us = progress->at_us;
    observer_.on_progress(progress->audio_seconds, options_.total_seconds,
                          static_cast<double>(progress->at_us - times_.started_us) / 1e6);
  }
}

void Supervisor::note_request(std::size_t position, const RequestEnded& ended) {
  Stage& stage = stages_[position];
  const auto first_failure = options_.board != nullptr
                                 ? options_.board->note(position, ended)
                                 : base::error(ErrorCode::corrupt, "it ended a request, and there is none");
  if (!first_failure.ok()) return refuse(stage, first_failure.error());
  if (*first_failure) {
    send_all(GiveUp{ended.request, base::text("it failed at stage ", stage.name.stage_id, " (",
                                              stage.name.name, "): ", ended.message)});
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
    start_or_refuse();
  } else if (!finishing_ && all([](const Stage& stage) { return stage.done.has_value(); })) {
    finishing_ = true;
    send_all(Finish{});
    for (Stage& stage : stages_) stage.last_heard = base::steady_clock().now();
  }
}

void Supervisor::start_or_refuse() {
  if (options_.check_meeting) {
    std::vector<Ready> where;
    for (const Stage& stage : stages_) where.push_back(*stage.ready);
    if (const Status status = options_.check_meeting(where); !status.ok()) {
      verdict_ = status.error();
      return stop_all();
    }
  }
  send_start();
}

void Supervisor::send_start() {
  started_ = true;
  const auto now = base::steady_clock().now();
  times_.started_us = std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count();
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    Start start;
    if (i > 0) start = {stages_[i - 1].ready->host, stages_[i - 1].ready->port};
    stages_[i].last_heard = now;
    stages_[i].group->send(i, start);
  }
  if (options_.board != nullptr) admit_requests();
}

void Supervisor::send_all(const Message& message) {
  for (std::size_t i = 0; i < stages_.size(); ++i) stages_[i].group->send(i, message);
}

void Supervisor::stop_all() {
  stopping_ = true;
  kill_at_ = base::Deadline::after(kStopGrace);
  send_all(Stop{});
}

void Supervisor::enforce_deadlines() {
  const auto now = base::steady_clock().now();
  const auto silent = longest_silent();
  if (!stopping_ && silent && now - stages_[*silent].last_heard >= longest_silence()) {
    blame_stopped();
    if (!verdict_)
      verdict_ =
          base::error(ErrorCode::timeout, "nothing was heard from ", outcome_of(*silent).who(), " for ",
                      std::chrono::round<Milliseconds>(now - stages_[*silent].last_heard).count(),
                      " ms (--timeout sets the limit)");
    stop_all();
  }
  if (stopping_ && kill_at_.passed(now)) {
    kill_all();
    kill_at_ = base::Deadline::never();
  }
}

void Supervisor::kill_all() {
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    if (stages_[i].ended()) continue;
    stages_[i].killed = true;
    stages_[i].group->kill_stage(i);
  }
}

/// Whether a stage has failed of its own accord.
bool Supervisor::has_reason() const {
  return std::any_of(stages_.begin(), stages_.end(), [](const Stage& stage) {
    const bool is_other = stage.failed && consequence_rank(stage.failed->code) == 0;
    const bool has_died = stage.exit && stage.failure_order != 0 && !stage.failed;
    return is_other || has_died;
  });
}

/// A stage that somebody has stopped is why others wait in vain, whoever of them says so first.
void Supervisor::blame_stopped() {
  if (verdict_ || has_reason()) return;
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    if (!stages_[i].group->is_stopped(i)) continue;
    verdict_ = base::error(ErrorCode::timeout, outcome_of(i).who(),
                           " is stopped, by SIGSTOP or a debugger, and the others wait ",
                           "for it in vain (--timeout sets the limit, ", options_.timeout.count(),
                           " ms); 'kill -CONT ", stages_[i].group->pid(i), "' lets a stage go on");
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
  if (stage.ended()) return false;
  if (finishing_) return true;
  return started_ ? !stage.done : !stage.ready;
}

std::optional<std::size_t> Supervisor::longest_silent() const {
  std::optional<std::size_t> silent;
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    if (!is_awaited(stages_[i])) continue;
    if (!silent || stages_[i].last_heard < stages_[*silent].last_heard) silent = i;
  }
  return silent;
}

StageOutcome Supervisor::outcome_of(std::size_t position) const {
  const Stage& stage = stages_[position];
  StageOutcome outcome;
  outcome.stage_id = stage.name.stage_id;
  outcome.name = stage.name.name;
  outcome.pid = stage.group->pid(position);
  outcome.place = stage.group->place(position);
  outcome.failed = stage.failed;
  outcome.order = stage.failure_order;
  if (stage.exit && !stage.killed) outcome.exit = stage.exit->status;
  if (stage.exit) outcome.last_words = stage.exit->last_words;
  return outcome;
}

std::vector<StageOutcome> Supervisor::outcomes() const {
  std::vector<StageOutcome> result;
  for (std::size_t i = 0; i < stages_.size(); ++i) result.push_back(outcome_of(i));
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
