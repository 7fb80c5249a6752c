#include "pipeline/node.hpp"

#include <poll.h>

#include <algorithm>
#include <climits>
#include <utility>

#include "base/text.hpp"
#include "pipeline/connector_context.hpp"

namespace stagewire::pipeline {
namespace {

/// As Supervisor: from being told to stop until being killed.
constexpr std::chrono::seconds kStopGrace{1};

/// Beats for each heartbeat timeout. After a cut of the network TCP tries again at intervals that double; the
/// closer the last beat before it, the more of the timeout is left for that.
constexpr int kBeats = 10;

constexpr Milliseconds kShortestTimeout{1};
constexpr Milliseconds kLongestTimeout{std::chrono::hours(24)};

/// Connections that the master drops in the handshake before it is said that it will not have us. A restart
/// of the master may drop one.
constexpr std::uint64_t kRefusedHandshakes = 5;

}  // namespace

Node::Node(NodeSetup options, PipelineObserver& observer)
    : options_(std::move(options)), observer_(observer) {}

std::string Node::master() const {
  return base::text("the master at ", options_.master_host, ":", options_.master_port);
}

Result<RunEnd> Node::run() {
  if (Status status = call_master(); !status.ok()) return status.error();
  while (!is_over()) {
    wait_for_events();
    enforce_deadlines();
  }
  if (failure_) return *failure_;
  return *end_;
}

/// When nobody is waited for any more: neither a stage here nor the master's last word.
bool Node::is_over() const {
  return stages_.all_ended() && (end_ || (failure_ && !leaving_));
}

Status Node::call_master() {
  control::ControlOptions control;
  control.listen = false;
  control.secret_key = options_.secret_key;
  control.heartbeat_ms = 0;  // beats of our own go both ways, at the master's pace
  auto plane = control::ControlPlane::create(control);
  if (!plane.ok()) return plane.error();
  plane_ = std::move(*plane);
  const auto dial = plane_->dial(options_.master_host, options_.master_port);
  if (!dial.ok()) return dial.error();
  dial_ = *dial;
  call_until_ = base::Deadline::after(options_.start_timeout);
  observer_.on_note(base::text("calling ", master()));
  return {};
}

base::TimePoint Node::wake_at() const {
  auto when = std::min(beat_at_, kill_at_.when());
  if (!welcome_ && !failure_) when = std::min(when, call_until_.when());
  if (welcome_ && !failure_) when = std::min(when, master_heard_ + heartbeat_timeout_);
  return when;
}

void Node::wait_for_events() {
  const bool may_stop = !failure_ && !end_;
  std::vector<pollfd> fds{{may_stop ? options_.stop_fd : -1, POLLIN, 0}, {plane_->wait_fd(), POLLIN, 0}};
  const std::size_t first = fds.size();
  stages_.watch(fds);
  const auto left = base::Deadline::at(wake_at()).left(base::steady_clock().now());
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  if (::poll(fds.data(), fds.size(), static_cast<int>(std::min<std::int64_t>(ms, INT_MAX))) < 0) return;
  stages_.serve(std::span(fds).subspan(first), *this);
  plane_->progress(*this);
  if (fds.front().revents != 0) leave(base::error(ErrorCode::cancelled, "the run was interrupted there"));
}

void Node::enforce_deadlines() {
  const auto now = base::steady_clock().now();
  if (kill_at_.passed(now)) {
    stages_.kill_all();
    kill_at_ = base::Deadline::never();
    leaving_ = false;  // the master had its time
  }
  if (failure_ || end_) return;
  if (!welcome_ && plane_->failed_handshakes(dial_) >= kRefusedHandshakes) {
    return stop(
        base::error(ErrorCode::permission, master(),
                    " drops every connection at once: the secrets of the nodes differ, or one of them "
                    "has none (give all the same --secret-file), or something else listens there"));
  }
  if (!welcome_ && call_until_.passed(now)) {
    return stop(base::error(ErrorCode::timeout, master(), " did not answer within ",
                            options_.start_timeout.count(),
                            " ms (--omni-start-timeout): is it running, and is its port open to this host?"));
  }
  if (welcome_ && now >= master_heard_ + heartbeat_timeout_) {
    return stop(base::error(
        ErrorCode::unavailable, "nothing was heard from ", master(), " for ", heartbeat_timeout_.count(),
        " ms (--omni-heartbeat-timeout there): its host, or the network on the way to it, "
        "may be down"));
  }
  if (now >= beat_at_) {
    send(Beat{now_us()});
    beat_at_ = now + heartbeat_timeout_ / kBeats;
  }
}

void Node::stop(const Error& reason) {
  if (!failure_) failure_ = reason;
  beat_at_ = base::TimePoint::max();
  if (kill_at_.is_never()) kill_at_ = base::Deadline::after(kStopGrace);
  stages_.send_all(Stop{});
}

void Node::leave(const Error& reason) {
  leaving_ = welcome_;
  if (leaving_) send(Leaving{reason.code(), reason.message()});
  stop(reason);
}

void Node::send(const NodeMessage& message) {
  const std::string text = encode_node_message(message);
  const Status sent = plane_->send(dial_, std::as_bytes(std::span(text.data(), text.size())));
  // What the master does not get it may wait for in vain.
  if (!sent.ok() && !failure_) stop(sent.error().with_context("telling " + master()));
}

// --- the master ---

void Node::on_connected(control::DialId) {
  if (!failure_) send(options_.hello);
}

void Node::on_disconnected(control::DialId) {
  leaving_ = false;
  if (!welcome_ || failure_ || end_) return;
  stop(base::error(ErrorCode::unavailable, "the connection to ", master(),
                   " has ended: it was killed, or its host has restarted"));
}

void Node::on_answer(control::DialId, std::span<const std::byte> payload) {
  const auto message = decode_node_message({reinterpret_cast<const char*>(payload.data()), payload.size()});
  if (!message.ok()) return stop(message.error().with_context(master()));
  master_heard_ = base::steady_clock().now();
  take(*message);
}

void Node::take(const NodeMessage& message) {
  if (const auto* welcome = std::get_if<Welcome>(&message)) {
    heartbeat_timeout_ =
        std::clamp(Milliseconds(welcome->heartbeat_timeout_ms), kShortestTimeout, kLongestTimeout);
    shares_clock_ = welcome->boot_id == options_.hello.boot_id;
    welcome_ = true;
    beat_at_ = master_heard_;
  } else if (const auto* refused = std::get_if<Refused>(&message)) {
    stop(Error(refused->code, base::text(master(), " refuses this node: ", refused->message)));
  } else if (const auto* begun = std::get_if<Begin>(&message)) {
    begin(*begun);
  } else if (const auto* to = std::get_if<ToStage>(&message)) {
    take_to_stage(*to);
  } else if (const auto* killed = std::get_if<KillStage>(&message)) {
    if (stage_ids_.contains(killed->position)) stages_.kill_stage(killed->position);
  } else if (const auto* answer = std::get_if<BeatAnswer>(&message)) {
    note_clock(*answer);
  } else if (const auto* end = std::get_if<RunEnd>(&message)) {
    leaving_ = false;
    end_ = *end;
    if (!end->ok) stop(Error(end->code, end->message));
    if (kill_at_.is_never()) kill_at_ = base::Deadline::after(kStopGrace);
  }
}

void Node::begin(const Begin& begin) {
  if (!stage_ids_.empty() || failure_) return;
  auto launches = options_.launches(begin);
  const Status started = launches.ok() ? stages_.start(*launches, options_.command) : launches.error();
  if (!started.ok()) return leave(started.error());
  for (const StageLaunch& launch : *launches) {
    const auto position = static_cast<std::size_t>(launch.assignment.position);
    stage_ids_[position] = launch.assignment.stage_id;
    send(Started{position, stages_.pid(position)});
  }
}

void Node::take_to_stage(const ToStage& to) {
  if (!stage_ids_.contains(to.position)) return;
  const auto message = decode_message(to.message);
  if (!message.ok()) return stop(message.error().with_context(master()));
  // The assignment is this node's own: the master says when and where, not what to run.
  if (!std::holds_alternative<Assignment>(*message)) stages_.send(to.position, *message);
}

/// The master's clock at the middle of the shortest way there and back.
void Node::note_clock(const BeatAnswer& answer) {
  const std::int64_t now = now_us();
  const std::int64_t trip = now - answer.sent_at_us;
  if (answer.sent_at_us <= 0 || trip < 0 || trip >= best_trip_us_) return;
  best_trip_us_ = trip;
  clock_offset_us_ = answer.at_us - (answer.sent_at_us + trip / 2);
}

// --- the stages ---

void Node::on_message(std::size_t position, Message message) {
  if (!shares_clock_) message = shift_clock(std::move(message), clock_offset_us_);
  send(FromStage{position, encode_message(message)});
}

void Node::on_nonsense(std::size_t position, const Error& error) {
  send(FromStage{position, encode_message(Failed{error.code(), error.message()})});
}

void Node::on_output(std::size_t position, std::string_view line) {
  observer_.on_stage_output(stage_ids_[position], line);
}

void Node::on_exit(std::size_t position, const StageExit& exit) {
  send(Exited{position, exit.status.killed, exit.status.number, exit.last_words});
}

}  // namespace stagewire::pipeline
