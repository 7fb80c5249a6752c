#include "pipeline/master.hpp"

#include <algorithm>
#include <climits>
#include <utility>

#include "base/check.hpp"
#include "base/text.hpp"
#include "control/host_address.hpp"
#include "pipeline/connector_context.hpp"

namespace stagewire::pipeline {
namespace {

/// For the end to reach the nodes, who then hang up.
constexpr std::chrono::seconds kFarewell{2};

/// ZeroMQ shows the end of a connection to those who send on it, a little after it has told of it.
constexpr base::Duration kFirstProbe = std::chrono::milliseconds(5);
constexpr base::Duration kLastProbe = std::chrono::seconds(1);

constexpr int kHighestPort = 65'535;
const std::string kNobody;

int poll_timeout(base::TimePoint until) {
  const auto left = base::Deadline::at(until).left(base::steady_clock().now());
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::min<std::int64_t>(ms, INT_MAX));
}

}  // namespace

Result<std::unique_ptr<Master>> Master::open(MasterOptions options) {
  control::ControlOptions control;
  control.host = options.host;
  control.port = options.port;
  control.secret_key = options.secret_key;
  control.watch_callers = true;
  auto plane = control::ControlPlane::create(control);
  if (!plane.ok()) return plane.error().with_context("the master");
  std::unique_ptr<Master> master(new Master(std::move(options)));
  master->plane_ = std::move(*plane);
  return master;
}

Master::Master(MasterOptions options)
    : options_(std::move(options)), registry_(options_.own, options_.stages) {}

// --- before the start ---

Status Master::gather(const Begin& begin, int stop_fd, const Note& note) {
  note_ = note;
  const auto deadline = base::Deadline::after(options_.start_timeout);
  if (!registry_.missing().empty()) {
    note(base::text("the master waits at ", plane_->host(), ":", plane_->port(), " for ",
                    stage_list(registry_.missing())));
  }
  while (!registry_.missing().empty()) {
    if (deadline.passed(base::steady_clock().now())) return nobody_came();
    pollfd fds[] = {{plane_->wait_fd(), POLLIN, 0}, {stop_fd, POLLIN, 0}};
    static_cast<void>(::poll(fds, 2, poll_timeout(std::min(deadline.when(), due().when()))));
    if (fds[1].revents != 0) return base::error(ErrorCode::cancelled, "the run was interrupted");
    progress();
  }
  note_ = {};
  begun_ = true;
  for (const auto& [connection, node] : nodes_) answer(connection, begin);
  return {};
}

Error Master::nobody_came() const {
  std::string text =
      base::text(stage_list(registry_.missing()), " did not come within ", options_.start_timeout.count(),
                 " ms (--omni-start-timeout): start 'stagewire serve' with --stage-id for each "
                 "on its host, with --omni-master-address ",
                 plane_->host(), " and --omni-master-port ", plane_->port());
  if (!last_refusal_.empty()) text += "; refused was " + last_refusal_;
  return base::error(ErrorCode::timeout, text);
}

void Master::take_hello(const std::string& caller, const Hello& hello) {
  if (begun_) return refuse(caller, hello, base::error(ErrorCode::conflict, "the run has begun without it"));
  if (Status status = registry_.admit(caller, hello); !status.ok())
    return refuse(caller, hello, status.error());
  std::erase_if(nodes_, [this](const auto& entry) { return registry_.find(entry.first) == nullptr; });
  nodes_[caller] = Node{base::steady_clock().now(), {}};
  answer(caller, Welcome{options_.own.boot_id, options_.heartbeat_timeout.count()});
  if (note_) note_(hello.who() + " is there");
}

void Master::refuse(const std::string& caller, const Hello& hello, const Error& reason) {
  last_refusal_ = hello.who() + ": " + reason.message();
  if (const auto held = refusals_.admit(base::steady_clock().now())) {
    base::log(LogLevel::warning, "pipeline", "refused ", last_refusal_, " (", *held, " like this before)");
  }
  answer(caller, Refused{reason.code(), reason.message()});
}

// --- messages ---

void Master::on_call(const control::CallerId& caller, std::span<const std::byte> payload) {
  const auto message = decode_node_message({reinterpret_cast<const char*>(payload.data()), payload.size()});
  if (message.ok()) return take(caller, *message);
  const Error reason = message.error();
  if (nodes_.contains(caller)) return lose(caller, reason);
  answer(caller, Refused{reason.code(), reason.message()});  // another release, or no node
  if (const auto held = nonsense_.admit(base::steady_clock().now()))
    base::log(LogLevel::warning, "pipeline", reason.message(), " (", *held, " like this before)");
}

void Master::take(const std::string& caller, const NodeMessage& message) {
  if (const auto* hello = std::get_if<Hello>(&message)) return take_hello(caller, *hello);
  const auto found = nodes_.find(caller);
  if (found == nodes_.end()) return;  // refused, or lost
  found->second.last_heard = base::steady_clock().now();
  if (const auto* beat = std::get_if<Beat>(&message)) {
    answer(caller, BeatAnswer{beat->sent_at_us, now_us()});
  } else if (const auto* started = std::get_if<Started>(&message)) {
    if (runs(caller, started->position) && started->pid > 0 && started->pid <= INT_MAX)
      found->second.pids[started->position] = static_cast<pid_t>(started->pid);
  } else if (const auto* from = std::get_if<FromStage>(&message)) {
    take_from_stage(caller, *from);
  } else if (const auto* exited = std::get_if<Exited>(&message)) {
    if (sink_ != nullptr && runs(caller, exited->position))
      sink_->on_exit(exited->position, {{exited->killed, exited->number}, exited->last_words});
  } else if (const auto* leaving = std::get_if<Leaving>(&message)) {
    answer(caller, RunEnd{false, leaving->code, leaving->message, 0, 0, 0});  // it need not wait
    lose(caller, Error(leaving->code, leaving->message));
  }
}

/// A stage of another host says what a stage may say; anything else ends the run, not this process.
void Master::take_from_stage(const std::string& caller, const FromStage& from) {
  if (sink_ == nullptr || !runs(caller, from.position)) return;
  auto message = decode_message(from.message);
  if (!message.ok()) return sink_->on_nonsense(from.position, message.error());
  sink_->on_message(from.position, std::move(*message));
}

void Master::answer(const std::string& caller, const NodeMessage& message) {
  const std::string text = encode_node_message(message);
  const Status sent = plane_->answer(caller, std::as_bytes(std::span(text.data(), text.size())));
  // It is gone, or does not read: look_for_lost() finds out, and says so.
  if (!sent.ok()) on_hang_up();
}

// --- who is there ---

void Master::on_hang_up() {
  probe_step_ = kFirstProbe;
  probe_at_ = base::steady_clock().now();
}

base::Deadline Master::due() const {
  base::TimePoint when = probe_at_;
  for (const auto& [connection, node] : nodes_)
    when = std::min(when, node.last_heard + options_.heartbeat_timeout);
  return base::Deadline::at(when);
}

void Master::look_for_lost() {
  const auto now = base::steady_clock().now();
  std::vector<std::pair<std::string, Error>> lost;
  const bool probe = now >= probe_at_;
  if (probe) {
    probe_step_ *= 2;
    probe_at_ = probe_step_ > kLastProbe ? base::TimePoint::max() : now + probe_step_;
  }
  const std::string nothing = encode_node_message(BeatAnswer{});
  for (const auto& [connection, node] : nodes_) {
    if (now >= node.last_heard + options_.heartbeat_timeout) {
      lost.emplace_back(connection, base::error(ErrorCode::unavailable, "nothing was heard from it for ",
                                                options_.heartbeat_timeout.count(),
                                                " ms (--omni-heartbeat-timeout): its host, or the network on "
                                                "the way to it, may be down"));
    } else if (probe) {
      const Status sent =
          plane_->answer(connection, std::as_bytes(std::span(nothing.data(), nothing.size())));
      if (!sent.ok() && sent.error().code() == ErrorCode::unavailable)
        lost.emplace_back(connection, base::error(ErrorCode::unavailable,
                                                  "its connection has ended: it was "
                                                  "killed, or its host has restarted"));
    }
  }
  for (const auto& [connection, reason] : lost) lose(connection, reason);
}

void Master::lose(const std::string& connection, const Error& reason) {
  const Hello* hello = registry_.find(connection);
  if (hello == nullptr) return;
  const Error error = Error(reason.code(), reason.message()).with_context(hello->who());
  const auto positions = positions_of(*hello);
  nodes_.erase(connection);
  if (begun_) {
    if (sink_ != nullptr) sink_->on_lost(positions, error);
    return;  // it stays in the registry: nobody takes its place any more
  }
  registry_.remove(connection);
  if (note_) note_(error.message());
}

void Master::progress() {
  plane_->progress(*this);
  look_for_lost();
}

// --- while it runs ---

void Master::watch(std::vector<pollfd>& fds) const {
  fds.push_back({plane_->wait_fd(), POLLIN, 0});
}

void Master::serve(std::span<const pollfd>, StageSink& sink) {
  sink_ = &sink;
  progress();
  sink_ = nullptr;
}

void Master::send(std::size_t position, const Message& message) {
  const std::string& connection = connection_of(position);
  if (!connection.empty()) answer(connection, ToStage{position, encode_message(message)});
}

void Master::kill_stage(std::size_t position) {
  const std::string& connection = connection_of(position);
  if (!connection.empty()) answer(connection, KillStage{position});
}

void Master::end(const RunEnd& end) {
  const auto deadline = base::Deadline::after(kFarewell);
  for (const auto& [connection, node] : nodes_) answer(connection, end);
  while (!nodes_.empty() && !deadline.passed(base::steady_clock().now())) {
    pollfd fd{plane_->wait_fd(), POLLIN, 0};
    static_cast<void>(::poll(&fd, 1, poll_timeout(std::min(deadline.when(), due().when()))));
    progress();
  }
}

// --- which is where ---

std::vector<std::size_t> Master::positions_of(const Hello& hello) const {
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < options_.stages.size(); ++i) {
    if (std::find(hello.stages.begin(), hello.stages.end(), options_.stages[i]) != hello.stages.end())
      result.push_back(i);
  }
  return result;
}

std::vector<std::size_t> Master::positions() const {
  std::vector<std::size_t> result;
  for (const auto& [connection, hello] : registry_.nodes()) {
    for (const std::size_t position : positions_of(hello)) result.push_back(position);
  }
  return result;
}

bool Master::runs(const std::string& connection, std::uint64_t position) const {
  return position < options_.stages.size() && connection_of(position) == connection;
}

const std::string& Master::connection_of(std::size_t position) const {
  for (const auto& [connection, hello] : registry_.nodes()) {
    const auto positions = positions_of(hello);
    if (std::find(positions.begin(), positions.end(), position) != positions.end())
      return nodes_.contains(connection) ? connection : kNobody;
  }
  return kNobody;
}

pid_t Master::pid(std::size_t position) const {
  const auto node = nodes_.find(connection_of(position));
  if (node == nodes_.end()) return -1;
  const auto found = node->second.pids.find(position);
  return found == node->second.pids.end() ? -1 : found->second;
}

std::string Master::place(std::size_t position) const {
  for (const auto& [connection, hello] : registry_.nodes()) {
    const auto positions = positions_of(hello);
    if (std::find(positions.begin(), positions.end(), position) != positions.end()) return "on " + hello.name;
  }
  return {};
}

const std::string& Master::network_of(std::size_t position) const {
  const Hello* hello = registry_.find(connection_of(position));
  return hello == nullptr ? options_.own.network : hello->network;
}

Status Master::check_meeting(const std::vector<Ready>& where) const {
  for (std::size_t i = 0; i < where.size(); ++i) {
    if (!control::is_numeric_address(where[i].host) || where[i].port < 1 || where[i].port > kHighestPort) {
      return base::error(ErrorCode::corrupt, "stage ", options_.stages[i],
                         " says that it listens at no address and port");
    }
    if (i == 0) continue;
    const bool share_loopback = !network_of(i).empty() && network_of(i) == network_of(i - 1);
    if (!control::is_loopback(where[i - 1].host) || share_loopback) continue;
    return base::error(ErrorCode::invalid_argument, "stage ", options_.stages[i - 1], " listens at ",
                       where[i - 1].host, ", which stage ", options_.stages[i],
                       " cannot reach from its host: set the connector's `host` to an address of the host of "
                       "stage ",
                       options_.stages[i - 1], ", or to auto");
  }
  return {};
}

}  // namespace stagewire::pipeline
