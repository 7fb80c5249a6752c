// Messages to peers: over the endpoint when there is one, else over the control plane; in order in either
// case.
#include "engine/core.hpp"

namespace stagewire::engine {
namespace {

// Encodes without allocating after warm-up.
std::vector<std::byte>& scratch() {
  thread_local std::vector<std::byte> bytes;
  bytes.clear();
  return bytes;
}

std::vector<std::byte> copy_of(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

}  // namespace

void Core::send(Peer& peer, const wire::Message& message, const PayloadSlot& slot, bool urgent) {
  std::vector<std::byte>& bytes = scratch();
  wire::encode(message, bytes);
  const std::lock_guard lock(peer.mutex);
  if (peer.lost) {
    if (!slot.bytes.empty() && peer.endpoint) peer.endpoint->abandon(slot);
    return;
  }
  if (!peer.endpoint || peer.backend->capabilities().max_message_size == 0) {
    if (peer.dial != 0 || !peer.caller.empty()) send_over_control(peer, copy_of(bytes));
    return;  // else it is one that hears nothing of ours, such as an engine of MORI-IO's
  }
  if (peer.outbox.empty()) {
    const auto posted = peer.endpoint->send(bytes, slot, urgent);
    if (posted && *posted != Posted::full) return;
    // An endpoint that failed is found out by check_endpoints(), which sends the outbox another way.
  }
  peer.outbox.push_back({copy_of(bytes), slot, urgent});
  note_busy(peer);
}

PayloadSlot Core::reserve(Peer& peer, std::size_t size) {
  const std::lock_guard lock(peer.mutex);
  if (peer.lost || !peer.endpoint || !peer.outbox.empty()) return {};
  return peer.endpoint->reserve(size);
}

void Core::abandon(Peer& peer, const PayloadSlot& slot) {
  const std::lock_guard lock(peer.mutex);
  if (peer.endpoint && !slot.bytes.empty()) peer.endpoint->abandon(slot);
}

// With peer.mutex held.
void Core::send_over_control(Peer& peer, std::vector<std::byte> bytes) {
  run_on_loop([this, dial = peer.dial, caller = peer.caller, bytes = std::move(bytes)] {
    const Status sent = dial != 0 ? control_->send(dial, bytes) : control_->answer(caller, bytes);
    if (!sent) base::log(LogLevel::debug, "engine", "control message not sent: ", sent.error().message());
  });
}

void Core::send_original(const DialPtr& dial, std::vector<std::byte> bytes) {
  run_on_loop([this, dial, bytes = std::move(bytes)] {
    const Status sent = control_->send(dial->id, bytes);
    if (!sent)
      base::log(LogLevel::debug, "engine", "request to ", dial->name(), ": ", sent.error().message());
  });
}

void Core::answer_original(const control::CallerId& caller, std::vector<std::byte> bytes) {
  run_on_loop([this, caller, bytes = std::move(bytes)] {
    const Status sent = control_->answer(caller, bytes);
    if (!sent) base::log(LogLevel::debug, "engine", "answer not sent: ", sent.error().message());
  });
}

// With peer.mutex held. A busy peer is looked at again in every progress turn.
void Core::note_busy(Peer& peer) {
  const std::lock_guard lock(busy_mutex_);
  if (peer.noted_busy) return;
  peer.noted_busy = true;
  busy_peers_.push_back(peer.weak_from_this());
  busy_count_.store(static_cast<int>(busy_peers_.size()), std::memory_order_release);
}

// Tries again what was full; returns how many peers got on.
std::size_t Core::flush_busy() {
  std::vector<std::weak_ptr<Peer>> busy;
  {
    const std::lock_guard lock(busy_mutex_);
    busy.swap(busy_peers_);
    busy_count_.store(0, std::memory_order_release);
  }
  std::size_t moved = 0;
  std::vector<Finished> finished;
  for (const auto& weak : busy) {
    const PeerPtr peer = weak.lock();
    if (!peer) continue;
    std::unique_lock lock(peer->mutex);
    {
      const std::lock_guard busy_lock(busy_mutex_);
      peer->noted_busy = false;
    }
    if (flush(*peer, lock, finished)) ++moved;
    if (peer->busy()) note_busy(*peer);
  }
  {
    const std::lock_guard lock(busy_mutex_);
    if (busy_peers_.empty()) sent_waiters_.set_all();
  }
  for (const auto& [transfer, status] : finished) finish(transfer, status);
  return moved;
}

Status Core::wait_sent(base::Deadline deadline) {
  base::Event sent;
  {
    const std::lock_guard lock(busy_mutex_);
    if (busy_peers_.empty()) return {};
    sent_waiters_.add(&sent);
  }
  if (wait(sent, deadline)) return {};
  const std::lock_guard lock(busy_mutex_);
  sent_waiters_.remove(&sent);
  return base::error(ErrorCode::timeout, busy_peers_.size(),
                     " peers do not take the messages that wait for them");
}

// With peer.mutex held: sends and posts in order until something is full; whether anything went.
bool Core::flush(Peer& peer, std::unique_lock<std::mutex>& lock, std::vector<Finished>& finished) {
  bool moved = false;
  while (!peer.outbox.empty() && peer.endpoint) {
    QueuedMessage& next = peer.outbox.front();
    const auto posted = peer.endpoint->send(next.bytes, next.slot, next.urgent);
    if (!posted || *posted == Posted::full) break;
    peer.outbox.pop_front();
    moved = true;
  }
  while (!peer.waiting_transfers.empty()) {
    const std::shared_ptr<TransferImpl> next = peer.waiting_transfers.front();
    PostOutcome outcome = post(peer, next, lock, false);
    if (outcome.kind == PostOutcome::later) break;
    if (outcome.kind == PostOutcome::ended) finished.emplace_back(next, std::move(outcome.status));
    peer.waiting_transfers.pop_front();
    moved = true;
  }
  return moved;
}

}  // namespace stagewire::engine
