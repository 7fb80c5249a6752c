// The life of a link: from the first greeting through every renewal of its queue pairs to its end.
#include "backends/rdma/link.hpp"

#include <algorithm>

#include "base/log.hpp"
#include "base/text.hpp"

namespace stagewire::backends::rdma {
namespace {

// The stopped queue pairs' receives come back at once; a device that keeps some is not waited for longer.
constexpr base::Duration kMostDraining = std::chrono::milliseconds(200);
constexpr base::Duration kFarewell = std::chrono::seconds(2);
// A link over which nothing has come for so long is tried.
constexpr base::Duration kIdle = std::chrono::seconds(1);
// A link that was up for so long has found the ways that last.
constexpr base::Duration kSettled = std::chrono::minutes(1);
constexpr base::Duration kFirstProbe = std::chrono::seconds(1);
constexpr base::Duration kBusyTick = std::chrono::milliseconds(25);

// What comes back to the caller: answers to imports, credits, the end.
constexpr Shape kSmall{64, 512, 0, 0};

base::TimePoint now() {
  return base::steady_clock().now();
}

}  // namespace

Link::Link(LinkHost& host, Address peer)
    : host_(host),
      peer_(std::move(peer)),
      caller_(true),
      ways_(ways_to(host, peer_)),
      way_of_(1),
      probe_pause_(kFirstProbe),
      memory_(std::make_unique<LinkMemory>(kSmall, host.large)),
      held_(kSmall.buffers),
      transfers_(host.settings, host.completions, notify_later()) {
  for (std::uint32_t i = 0; i < host.large.buffers; ++i) free_buffers_.push_back(i);
  for (std::size_t i = 0; i < host.large.payloads; ++i) free_slots_.push_back(i);
}

Link::Link(LinkHost& host, Address peer, const Call& call)
    : host_(host),
      peer_(std::move(peer)),
      caller_(false),
      peer_link_(call.end.link),
      ways_(ways_to(host, peer_)),
      way_of_(1),
      probe_pause_(kFirstProbe),
      memory_(std::make_unique<LinkMemory>(host.large, kSmall)),
      held_(host.large.buffers),
      transfers_(host.settings, host.completions, notify_later()) {
  const auto* data = reinterpret_cast<const std::byte*>(call.address.data());
  peer_address_.assign(data, data + call.address.size());
  for (std::uint32_t i = 0; i < kSmall.buffers; ++i) free_buffers_.push_back(i);
}

Link::~Link() {
  // Handles of queue pairs go before the memory that they use.
  lanes_.clear();
  pairs_.clear();
  dying_.clear();
}

std::string Link::peer_name() const {
  return base::text(port().name(), " to ", rail().name);
}

Ways Link::ways_to(const LinkHost& host, const Address& peer) {
  std::vector<bool> ours;
  std::vector<bool> theirs;
  for (const auto& port : host.ports) ours.push_back(port->ethernet());
  for (const Rail& rail : peer.rails) theirs.push_back(rail.ethernet);
  return {ours, theirs};
}

std::optional<Status> Link::status() const {
  const std::lock_guard lock(mutex_);
  if (error_) return Status(*error_);
  if (!was_up_) return std::nullopt;
  return Status();
}

bool Link::ended() const {
  const std::lock_guard lock(mutex_);
  return phase_ == Phase::ended;
}

void Link::start() {
  const std::lock_guard lock(mutex_);
  deadline_ = now() + host_.settings.recovery;
  begin_attempt();
  wants_attention();
}

void Link::wants_attention() {
  host_.attention.store(true);
  host_.completions.nudge();
}

void Link::await_sent() {
  if (std::exchange(awaits_sent_, true)) return;
  host_.awaiting_sent.fetch_add(1);
  host_.wake.wake();  // whoever sleeps has not asked to be woken by what was sent
}

// --- Up, and down again

// With both ends' queue pairs connected: what the peer has not received goes out again.
void Link::came_up() {
  const bool again = std::exchange(was_up_, true);
  phase_ = Phase::up;
  deadline_ = base::TimePoint::max();
  last_heard_ = up_since_ = now();
  next_probe_ = now() + probe_pause_;
  pinging_ = false;
  if (again) base::log(LogLevel::info, "rdma", peer_name(), ": connected again");
  acknowledge(peer_end_.frames_received - frames_acknowledged_);
  for (Outgoing& frame : unacknowledged_) post_frame(frame);
  if (caller_) put_or_keep({FrameKind::begin, 0, 0, 0, {}});
  flush_pending();
  return_credits();
  const std::size_t transfers = transfers_.count();
  transfers_.restart();
  note_ended(transfers);
  for (std::size_t i = 1; i < pairs_.size(); ++i) {
    lanes_.push_back({pairs_[i], way_of_[i].port, way_of_[i].rail});
  }
  pump();
  wants_attention();
}

// The caller chooses the ports: a broken one is left out at once. One that is back is found by a probe.
void Link::on_port(std::size_t port, bool up) {
  const std::lock_guard lock(mutex_);
  if (!caller_ || up || (phase_ != Phase::up && phase_ != Phase::calling)) return;
  const bool used =
      std::any_of(way_of_.begin(), way_of_.end(), [&](const Way& way) { return way.port == port; });
  if (used) break_off(base::error(ErrorCode::unavailable, host_.ports[port]->name(), " is down"));
}

// Stops the queue pairs; goes on when everything that they received has been looked at.
void Link::break_off(const Error& reason) {
  if (phase_ == Phase::ended) return;
  if (phase_ == Phase::leaving) return end(reason);
  if (phase_ == Phase::up && now() - up_since_ > kSettled) probe_pause_ = kFirstProbe;
  if (is_up() || phase_ == Phase::waiting) {
    base::log(LogLevel::info, "rdma", peer_name(), ": ", reason.message(), "; connecting again");
    deadline_ = std::min(deadline_, now() + host_.settings.recovery);
  }
  trouble_ = reason.message();
  for (const auto& pair : pairs_) pair->stop();
  phase_ = Phase::draining;
  drain_until_ = now() + kMostDraining;
  wants_attention();
}

bool Link::drained(base::TimePoint time) const {
  return posted_receives_ == 0 || time >= drain_until_ || pairs_.empty();
}

void Link::drop_pairs() {
  for (std::size_t i = 0; i < pairs_.size(); ++i) host_.router.remove(way_of_[i].port, pairs_[i]->number());
  lanes_.clear();
  std::move(pairs_.begin(), pairs_.end(), std::back_inserter(dying_));
  pairs_.clear();
  posted_receives_ = 0;
}

void Link::tick(base::TimePoint time) {
  const std::lock_guard lock(mutex_);
  if (phase_ == Phase::ended) return;
  if (phase_ == Phase::leaving ? time >= deadline_ : time >= deadline_ && !is_up()) {
    return end(base::error(ErrorCode::unavailable, peer_name(), ": no connection within ",
                           host_.settings.recovery.count(),
                           " ms: ", trouble_.empty() ? "no answer" : trouble_));
  }
  switch (phase_) {
    case Phase::draining:
      if (!drained(time)) return;
      drop_pairs();
      if (caller_) return begin_attempt();
      if (!next_call_received_) return;  // the caller will
      take_ways(*next_call_received_);
      if (Status ok = accept_end(next_call_received_->end); !ok) return end(ok.error());
      next_call_received_.reset();
      return prepare_later();
    case Phase::retrying:
      if (time < retry_at_) return;
      drop_pairs();
      if (caller_) return begin_attempt();
      phase_ = Phase::draining;
      return;
    case Phase::calling:
      if (time >= next_call_) call_peer(time);
      return;
    case Phase::up:
      if (time >= next_probe_) probe_missing(time);
      flush_pending();
      if (time - last_heard_ < kIdle || pinging_ || pairs_[0]->room() == 0) return;
      break;
    default:
      return;
  }
  // Nothing has come for a while: a write of no bytes shows whether the peer is there.
  ibv_send_wr probe{};
  probe.wr_id = 0;
  probe.opcode = IBV_WR_RDMA_WRITE;
  probe.send_flags = IBV_SEND_SIGNALED;
  pinging_ = pairs_[0]->post(&probe, {.work_requests = 1}).ok();
}

base::Duration Link::tick_interval() const {
  const std::lock_guard lock(mutex_);
  return phase_ == Phase::up ? kIdle : kBusyTick;
}

// --- The end

void Link::close() {
  const std::lock_guard lock(mutex_);
  if (phase_ == Phase::ended || phase_ == Phase::leaving) return;
  const Error closed(ErrorCode::closed, "the endpoint was closed");
  for (const auto& entry : imports_) entry.second->end(Status(closed));
  imports_.clear();
  if (phase_ != Phase::up || transfers_.count() > 0) return end(closed);
  phase_ = Phase::leaving;
  deadline_ = now() + kFarewell;
  await_sent();
  put_or_keep({FrameKind::bye, 0, 0, 0, {}});
  wants_attention();
}

void Link::fail(const Error& reason) {
  const std::lock_guard lock(mutex_);
  end(reason);
}

void Link::end(const Error& reason) {
  if (phase_ == Phase::ended) return;
  base::log(LogLevel::debug, "rdma", peer_name(), ": ended: ", reason.message());
  const bool tell = reason.code() != ErrorCode::unavailable;
  error_ = reason;
  drop_pairs();
  dying_.clear();  // here and now: afterwards no byte of a transfer moves
  phase_ = Phase::ended;
  transfers_.fail_all(reason);
  for (const auto& entry : imports_) entry.second->end(Status(reason));
  imports_.clear();
  pending_.clear();
  starved_ = false;  // the backend may be gone when a slot is given back
  if (std::exchange(awaits_sent_, false)) host_.awaiting_sent.fetch_sub(1);
  const std::uint64_t theirs = caller_ ? peer_end_.link : peer_link_;
  if (tell && theirs != 0) greet(Farewell{theirs});
  wants_attention();
}

bool Link::serve(EventSink& sink, std::size_t& events) {
  std::optional<Error> lost;
  {
    const std::lock_guard lock(mutex_);
    if (phase_ != Phase::ended) return false;
    lost = error_;
  }
  if (std::exchange(arrived_, false)) {
    ++events;
    const bool told = lost->code() == ErrorCode::unavailable || lost->code() == ErrorCode::corrupt;
    sink.on_peer_lost(token_, told ? *lost : Error(ErrorCode::unavailable, lost->message()));
  }
  return true;
}

}  // namespace stagewire::backends::rdma
