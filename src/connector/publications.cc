#include "connector/publications.hpp"

#include <algorithm>
#include <cstring>

#include "base/text.hpp"
#include "connector/holders.hpp"
#include "connector/space.hpp"

namespace stagewire::connector {
namespace {

constexpr std::size_t kMaxWatched = 1'000'000;  // keys, of all peers together

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(base::steady_clock().now().time_since_epoch().count());
}

}  // namespace

base::Duration sweep_interval(base::Duration ttl) {
  return std::clamp<base::Duration>(ttl / 10, std::chrono::milliseconds(20), std::chrono::seconds(10));
}

Publications::Publications(std::shared_ptr<engine::Core> core, std::shared_ptr<memory::Pool> pool,
                           std::shared_ptr<engine::LocalRegion> region, base::Duration ttl)
    : core_(std::move(core)), pool_(std::move(pool)), region_(std::move(region)), ttl_(ttl) {
  if (ttl_ > base::Duration::zero()) {
    core_->add_timer(base::Deadline::after(sweep_interval(ttl_), core_->clock()), [this] { sweep(); });
  }
}

Status Publications::put(std::string_view key, const Source& source, base::Deadline deadline, bool spare) {
  Status status;
  if (put_eagerly(key, source, &status)) return status;
  // A receiver that watches ahead does not wake us for it.
  core_->poll_messages();
  if (put_eagerly(key, source, &status)) return status;
  status = check_free(key);
  if (!status) return count_error(status);
  auto block =
      allocate_block(*core_, *pool_, source.size, deadline, spare ? claim_of(key) : memory::Claim::full);
  if (!block) return count_error(block.error().with_context(base::text("put of ", key)));
  status = source.write(pool_->bytes().subspan(*block, source.size));
  if (status) status = publish(key, source, *block);
  if (status) return status;
  pool_->free(*block);
  return count_error(status);
}

Status Publications::count_error(Status status) {
  const std::lock_guard lock(mutex_);
  ++counters_.errors;
  return status;
}

Status Publications::put(std::string_view key, PoolBuffer buffer, wire::PayloadKind kind) {
  PoolBuffer::Holder* holder = buffer.holder();
  if (holder == nullptr)
    return base::error(ErrorCode::invalid_argument, "put of ", key, ": the buffer is empty");
  if (holder->pool() != pool_) {
    return base::error(ErrorCode::invalid_argument, "put of ", key,
                       ": the buffer was taken from another connector's pool");
  }
  Source source;
  source.size = holder->size();
  source.kind = kind;
  core_->poll_messages();
  Status status = check_free(key);
  if (status) status = publish(key, source, holder->offset());
  if (!status) return count_error(status);
  holder->let_go();
  return status;
}

void Publications::allocate(std::string_view key, std::uint64_t size, base::Deadline deadline, bool spare,
                            std::function<void(Result<PoolBuffer>)> callback) {
  const auto timer = core_->add_timer(deadline, [this] { pool_->expire(core_->clock().now()); });
  core_->want_everything(true);
  const std::lock_guard lock(mutex_);
  const std::uint64_t ticket = ++last_spare_wait_;
  const auto granted = [this, name = std::string(key), size, timer, ticket,
                        callback = std::move(callback)](const Result<memory::Pool::Offset>& block) {
    core_->cancel_timer(timer);
    core_->run_on_loop([this, name, size, ticket, callback, block] {
      core_->want_everything(false);
      {
        const std::lock_guard done_lock(mutex_);
        const auto wait = spare_waits_.find(name);
        if (wait != spare_waits_.end() && wait->second.ticket == ticket) spare_waits_.erase(wait);
      }
      if (!block) return callback(block.error().with_context(base::text("put of ", name)));
      callback(PoolBuffer(std::make_unique<PoolBuffer::Holder>(pool_, *block, size)));
    });
  };
  const memory::Claim claim = spare && !is_asked_for(key) ? memory::Claim::spare : memory::Claim::full;
  const auto wait = pool_->allocate_async(size, deadline, granted, claim);
  if (claim == memory::Claim::full || wait == 0) return;
  spare_waits_.insert_or_assign(std::string(key), SpareWait{ticket, wait});
}

memory::Claim Publications::claim_of(std::string_view key) const {
  const std::lock_guard lock(mutex_);
  return is_asked_for(key) ? memory::Claim::full : memory::Claim::spare;
}

// With the mutex held: somebody waits for it, and does not only know that it will come.
bool Publications::is_asked_for(std::string_view key) const {
  const auto waiting = waiting_.find(key);
  return waiting != waiting_.end() && std::any_of(waiting->second.begin(), waiting->second.end(),
                                                  [](const Waiting& receiver) { return receiver.wake; });
}

// A small payload goes straight to a receiver that waits for it. True when that settled the put, either way.
bool Publications::put_eagerly(std::string_view key, const Source& source, Status* status) {
  const std::lock_guard lock(mutex_);
  const auto waiting = waiting_.find(key);
  if (waiting == waiting_.end() || closed_ || entries_.contains(key)) return false;
  const Waiting& receiver = waiting->second.front();
  if (!receiver.eager) return false;
  const PayloadSlot slot = core_->reserve(*receiver.peer, source.size);
  if (slot.bytes.empty()) return false;
  *status = source.write(slot.bytes);
  if (!*status) {
    core_->abandon(*receiver.peer, slot);
    return true;
  }
  core_->send(*receiver.peer,
              wire::Ready{key, 0, 0, source.size, source.kind, static_cast<std::uint32_t>(source.dtype),
                          source.shape, now_ns(), receiver.watch},
              slot, receiver.wake);
  first_was_told(waiting);
  count_put(source.size);
  return true;
}

// A payload that is being read is not replaced. Its reader may have released it in a message that nobody has
// looked at yet: so look before refusing.
Status Publications::check_free(std::string_view key) {
  if (!being_read(key)) return {};
  core_->poll();
  if (!being_read(key)) return {};
  return base::error(ErrorCode::conflict, "put of ", key, ": the payload put before is being read");
}

bool Publications::being_read(std::string_view key) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(key);
  return entry != entries_.end() && entry->second.readers > 0;
}

void Publications::count_put(std::uint64_t size) {
  ++counters_.puts;
  counters_.bytes += size;
}

Status Publications::publish(std::string_view key, const Source& source, memory::Pool::Offset block) {
  const std::lock_guard lock(mutex_);
  if (closed_) return base::error(ErrorCode::closed, "put of ", key, ": the connector was closed");
  if (const auto old = entries_.find(key); old != entries_.end()) {
    if (old->second.readers > 0) {
      return base::error(ErrorCode::conflict, "put of ", key, ": the payload put before is being read");
    }
    erase(old);
  }
  aborted_.forget(key);  // what was aborted was the payload before
  pool_->publish(block);
  const auto place = entries_.at(key);
  place->second = Entry{block, source.size, source.kind, source.dtype, source.shape, now_ns(), 0};
  count_put(source.size);
  offer(place->first, place->second);
  return {};
}

// With the mutex held.
void Publications::first_was_told(base::ReusingStringMap<std::vector<Waiting>>::iterator waiting) {
  waiting->second.erase(waiting->second.begin());
  if (waiting->second.empty()) waiting_.erase(waiting);
}

// With the mutex held: tells the first who waits, if the entry is not being read already.
void Publications::offer(const std::string& key, Entry& entry) {
  const auto waiting = waiting_.find(key);
  if (waiting == waiting_.end() || entry.readers > 0) return;
  const Waiting receiver = waiting->second.front();
  first_was_told(waiting);
  if (receiver.eager && offer_eagerly(key, entry, receiver)) {
    erase(entries_.find(key));
    return;
  }
  const std::uint64_t lease = next_lease_++;
  pool_->pin(entry.block);
  ++entry.readers;
  leases_.emplace(lease, Lease{receiver.peer, key, entry.block, receiver.watch});
  core_->send(
      *receiver.peer,
      wire::Ready{key, lease, entry.block, entry.size, entry.kind, static_cast<std::uint32_t>(entry.dtype),
                  entry.shape, entry.put_time_ns, receiver.watch},
      {}, receiver.wake);
}

bool Publications::offer_eagerly(const std::string& key, Entry& entry, const Waiting& receiver) {
  const PayloadSlot slot = core_->reserve(*receiver.peer, entry.size);
  if (slot.bytes.empty()) return false;
  std::memcpy(slot.bytes.data(), pool_->bytes().data() + entry.block, entry.size);
  core_->send(*receiver.peer,
              wire::Ready{key, 0, 0, entry.size, entry.kind, static_cast<std::uint32_t>(entry.dtype),
                          entry.shape, entry.put_time_ns, receiver.watch},
              slot, receiver.wake);
  return true;
}

void Publications::erase(base::ReusingStringMap<Entry>::iterator entry) {
  pool_->retire(entry->second.block);
  entries_.erase(entry);
  if (entries_.empty()) empty_waiters_.set_all();
}

void Publications::drop(std::string_view key) {
  const std::lock_guard lock(mutex_);
  aborted_.forget(key);
  if (const auto entry = entries_.find(key); entry != entries_.end()) erase(entry);
}

bool Publications::withdraw(std::string_view key, std::string_view reason) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(key);
  if (entry == entries_.end()) return false;
  const bool read = entry->second.readers > 0;
  erase(entry);
  if (reason.empty()) {
    aborted_.forget_given_up(key);
  } else if (!read) {
    aborted_.aborted(key, reason);
  }
  return true;
}

void Publications::abort(std::string_view key, std::string_view reason) {
  const std::lock_guard lock(mutex_);
  if (const auto entry = entries_.find(key); entry != entries_.end()) erase(entry);
  const auto waiting = waiting_.find(key);
  if (waiting == waiting_.end()) return aborted_.aborted(key, reason);
  for (const Waiting& receiver : waiting->second) {
    core_->send(*receiver.peer, wire::Gone{key, static_cast<std::uint32_t>(ErrorCode::cancelled),
                                           std::string(reason), receiver.watch});
  }
  waiting_.erase(waiting);
}

void Publications::on_watch(const engine::PeerPtr& peer, const wire::Watch& watch) {
  const std::lock_guard lock(mutex_);
  if (closed_ || peer->lost) return;
  const auto refuse = [&](ErrorCode code, std::string reason) {
    core_->send(*peer,
                wire::Gone{watch.key, static_cast<std::uint32_t>(code), std::move(reason), watch.watch});
  };
  if (auto aborted = aborted_.ask(watch.key)) return refuse(ErrorCode::cancelled, std::move(*aborted));
  if (waiting_.size() >= kMaxWatched && !waiting_.contains(watch.key)) {
    return refuse(ErrorCode::exhausted, base::text(kMaxWatched, " keys are watched already"));
  }
  std::vector<Waiting>& waiting = waiting_.at(watch.key)->second;
  const auto known =
      std::find_if(waiting.begin(), waiting.end(), [&](const Waiting& w) { return w.peer == peer; });
  if (known != waiting.end()) {
    known->wake = watch.wake;
    known->watch = watch.watch;
  } else if (watch.again) {
    // Ready went out before we heard that somebody waits for it.
    if (waiting.empty()) waiting_.erase(watch.key);
    return core_->send(*peer, wire::Nudge{});
  } else {
    waiting.push_back({peer, watch.eager, watch.wake, watch.watch});
  }
  if (watch.wake) {
    if (const auto wait = spare_waits_.find(watch.key); wait != spare_waits_.end()) {
      pool_->make_full(wait->second.wait);
    }
  }
  const auto entry = entries_.find(watch.key);
  if (entry != entries_.end() && entry->second.readers == 0) {
    offer(entry->first, entry->second);
  } else if (watch.answer_now) {
    refuse(ErrorCode::not_found, {});
  }
}

void Publications::on_unwatch(const engine::PeerPtr& peer, const wire::Unwatch& unwatch) {
  const std::lock_guard lock(mutex_);
  bool watched = false;
  if (const auto waiting = waiting_.find(unwatch.key); waiting != waiting_.end()) {
    watched = std::erase_if(waiting->second,
                            [&](const Waiting& w) { return w.peer == peer && w.watch == unwatch.watch; }) > 0;
    if (waiting->second.empty()) waiting_.erase(waiting);
  }
  if (!unwatch.abandoned) return;
  if (aborted_.settle(unwatch.key)) return;
  // Also of a payload that lies here still: to abort it is then to tell nobody.
  if (watched || entries_.contains(unwatch.key)) aborted_.given_up(unwatch.key);
  report_abandoned(unwatch.key, !watched, base::error(ErrorCode::cancelled, peer->desc.key, " gave it up"));
}

// With the mutex held.
void Publications::report_abandoned(std::string_view key, bool taken, const Error& reason) {
  if (listener_) listener_(key, taken, reason);
}

void Publications::on_abandoned(Connector::AbandonListener listener) {
  const std::lock_guard lock(mutex_);
  listener_ = std::move(listener);
}

void Publications::catch_up(base::Duration timeout, std::function<void(Status)> callback) {
  const std::vector<engine::PeerPtr> peers = core_->peers();
  const std::lock_guard lock(mutex_);
  const std::uint64_t id = ++last_ping_;
  const auto place = catch_ups_.emplace(id, CatchUp{}).first;
  place->second.callback = std::move(callback);
  for (const engine::PeerPtr& peer : peers) {
    {
      const std::lock_guard peer_lock(peer->mutex);
      if (!peer->met || peer->lost) continue;
    }
    place->second.silent.insert(peer.get());
    core_->send(*peer, wire::Ping{id});
  }
  if (closed_) return end_catch_up(place, Error(ErrorCode::closed, "the connector was closed"));
  if (place->second.silent.empty()) return end_catch_up(place, {});
  place->second.timer = core_->add_timer(base::Deadline::after(timeout, core_->clock()), [this, id, timeout] {
    const std::lock_guard timer_lock(mutex_);
    const auto late = catch_ups_.find(id);
    if (late == catch_ups_.end()) return;
    end_catch_up(late, base::error(ErrorCode::timeout, late->second.silent.size(),
                                   " receivers have not answered within ",
                                   std::chrono::duration_cast<Milliseconds>(timeout).count(), " ms"));
  });
}

void Publications::on_pong(const engine::PeerPtr& peer, const wire::Pong& pong) {
  const std::lock_guard lock(mutex_);
  if (const auto place = catch_ups_.find(pong.id); place != catch_ups_.end()) heard(place, peer.get());
}

// With the mutex held: `peer` has said everything. Returns the next one.
Publications::CatchUps::iterator Publications::heard(CatchUps::iterator catch_up, engine::Peer* peer) {
  const auto next = std::next(catch_up);
  if (catch_up->second.silent.erase(peer) > 0 && catch_up->second.silent.empty()) end_catch_up(catch_up, {});
  return next;
}

// With the mutex held.
void Publications::end_catch_up(CatchUps::iterator catch_up, const Status& status) {
  core_->cancel_timer(catch_up->second.timer);
  core_->run_on_loop([callback = std::move(catch_up->second.callback), status] { callback(status); });
  catch_ups_.erase(catch_up);
}

void Publications::on_release(const engine::PeerPtr& peer, const wire::Release& release) {
  const std::lock_guard lock(mutex_);
  const auto lease = leases_.find(release.lease);
  // A peer can give back only what is its own.
  if (lease == leases_.end() || lease->second.peer != peer) return;
  const std::string key = std::move(lease->second.key);
  const memory::Pool::Offset block = lease->second.block;
  leases_.erase(lease);
  reader_left(key, block, release.consumed);
}

// With the mutex held: one pin less; the entry goes if its payload was taken, else the next may have it.
void Publications::reader_left(const std::string& key, memory::Pool::Offset block, bool consumed) {
  pool_->unpin(block);
  const auto entry = entries_.find(key);
  if (entry == entries_.end() || entry->second.block != block) return;  // dropped meanwhile
  --entry->second.readers;
  if (consumed && entry->second.readers == 0) {
    erase(entry);
  } else {
    offer(entry->first, entry->second);
  }
}

void Publications::on_lost(const engine::PeerPtr& peer) {
  const std::lock_guard lock(mutex_);
  const Error reason = base::error(ErrorCode::unavailable, "its receiver ", peer->desc.key, " was lost");
  for (auto waiting = waiting_.begin(); waiting != waiting_.end();) {
    const auto gone = std::erase_if(waiting->second, [&](const Waiting& w) { return w.peer == peer; });
    if (gone > 0) report_abandoned(waiting->first, false, reason);
    waiting = waiting->second.empty() ? waiting_.erase(waiting) : std::next(waiting);
  }
  for (auto lease = leases_.begin(); lease != leases_.end();) {
    if (lease->second.peer != peer) {
      ++lease;
      continue;
    }
    const Lease lost = std::move(lease->second);
    lease = leases_.erase(lease);
    report_abandoned(lost.key, true, reason);
    reader_left(lost.key, lost.block, false);
  }
  for (auto place = catch_ups_.begin(); place != catch_ups_.end();) place = heard(place, peer.get());
}

void Publications::sweep() {
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    const std::uint64_t now = now_ns();
    for (auto entry = entries_.begin(); entry != entries_.end();) {
      const auto current = entry++;
      if (current->second.readers > 0) continue;
      if (now - current->second.put_time_ns <= static_cast<std::uint64_t>(ttl_.count())) continue;
      bytes += current->second.size;
      ++count;
      erase(current);
    }
    counters_.expired += count;
  }
  if (count > 0) {
    if (const auto held = expiry_log_.admit(core_->clock().now())) {
      base::log(LogLevel::warning, "connector", count, " payloads (", base::size_text(bytes),
                ") expired unread after ", std::chrono::duration<double>(ttl_).count(), " s (buffer_ttl_s)",
                *held > 0 ? base::text("; ", *held, " such lines held back") : "");
    }
  }
  core_->add_timer(base::Deadline::after(sweep_interval(ttl_), core_->clock()), [this] { sweep(); });
}

Status Publications::drain(base::Deadline deadline) {
  while (true) {
    base::Event empty;
    std::size_t left = 0;
    {
      const std::lock_guard lock(mutex_);
      left = entries_.size();
      if (left > 0) empty_waiters_.add(&empty);
    }
    if (left == 0) return core_->wait_sent(deadline);
    core_->want_everything(true);
    const bool rung = core_->wait(empty, deadline);
    core_->want_everything(false);
    if (!rung) {
      const std::lock_guard lock(mutex_);
      empty_waiters_.remove(&empty);
      if (!entries_.empty()) {
        return base::error(ErrorCode::timeout, entries_.size(), " payloads have not been taken, ",
                           entries_.begin()->first, " among them");
      }
    }
  }
}

void Publications::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  empty_waiters_.set_all();
  waiting_.clear();
  while (!catch_ups_.empty()) {
    end_catch_up(catch_ups_.begin(), Error(ErrorCode::closed, "the connector was closed"));
  }
  while (!entries_.empty()) erase(entries_.begin());
}

SenderCounters Publications::counters() const {
  const std::lock_guard lock(mutex_);
  SenderCounters counters = counters_;
  counters.published = entries_.size();
  counters.watched = waiting_.size();
  return counters;
}

}  // namespace stagewire::connector
