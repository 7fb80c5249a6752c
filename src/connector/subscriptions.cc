#include "connector/subscriptions.hpp"

#include "base/text.hpp"
#include "connector/original_senders.hpp"

namespace stagewire::connector {
namespace {

// How long the first look at a key may wait for the sender's answer; later looks answer from what is known
// here.
constexpr base::Duration kFirstLook = std::chrono::milliseconds(200);

constexpr std::size_t kMostUnmet = 4096;
constexpr std::size_t kMostSpare = 1024;

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(base::steady_clock().now().time_since_epoch().count());
}

}  // namespace

Subscriptions::Subscriptions(std::shared_ptr<engine::Core> core, std::shared_ptr<memory::Pool> pool,
                             std::shared_ptr<engine::LocalRegion> region, RouteWish wish, base::Duration ttl,
                             base::Duration original_timeout)
    : core_(std::move(core)),
      pool_(std::move(pool)),
      region_(std::move(region)),
      wish_(wish),
      ttl_(ttl),
      originals_(std::make_unique<OriginalSenders>(*this, original_timeout)) {
  if (ttl_ > base::Duration::zero()) {
    core_->add_timer(base::Deadline::after(sweep_interval(ttl_), core_->clock()), [this] { sweep(); });
  }
}

Subscriptions::~Subscriptions() = default;

// The sender is asked again when the need becomes more pressing; it takes the same watch twice for one.
Subscriptions::WantedPtr Subscriptions::want(std::string_view key, const engine::DialPtr& dial, Need need) {
  if (const auto found = wanted_.find(key); found != wanted_.end()) {
    WantedPtr known = found->second;
    known->last_asked = core_->clock().now();
    if (need > known->need && known->state == State::waiting) {
      known->need = need;
      send_watch(known);
    }
    return known;
  }
  WantedPtr wanted = make_wanted();
  wanted->key = key;
  wanted->dial = dial;
  wanted->need = need;
  wanted->watch = ++last_watch_;
  wanted->last_asked = core_->clock().now();
  wanted_.at(key)->second = wanted;
  send_watch(wanted);
  return wanted;
}

Subscriptions::WantedPtr Subscriptions::make_wanted() {
  if (spare_.empty()) return std::make_shared<Wanted>();
  WantedPtr wanted = std::move(spare_.back());
  spare_.pop_back();
  return wanted;
}

void Subscriptions::Wanted::clear() {
  dial.reset();
  state = State::waiting;
  peer.reset();
  watch = 0;
  need = Need::wait;
  answered = false;
  looked = false;
  ready.shape.clear();
  payload = {};
  callback = nullptr;
  size.reset();
  deadline = base::Deadline::never();
}

// It is not in the table any more, and we have done with it.
void Subscriptions::forget(WantedPtr& wanted) {
  const bool only_ours = wanted.use_count() == 1 && !wanted->original;
  if (!only_ours || wanted->watcher || spare_.size() >= kMostSpare) return wanted.reset();
  wanted->clear();
  spare_.push_back(std::move(wanted));
}

// Asks whoever answers at the wanted key's address now; if nobody does yet, on_met() or on_original() will.
void Subscriptions::send_watch(const WantedPtr& wanted) {
  bool original = false;
  const engine::PeerPtr asked = wanted->peer;
  {
    const std::lock_guard lock(wanted->dial->mutex);
    original = wanted->dial->state == engine::Dial::State::original;
    wanted->peer = wanted->dial->peer;
  }
  if (original) {
    wanted->original = true;
    return originals_->start(wanted);
  }
  if (!wanted->peer) return;
  const bool eager = wish_ == RouteWish::automatic || wish_ == RouteWish::eager;
  const bool wake = wanted->need != Need::ahead;
  core_->send(
      *wanted->peer,
      wire::Watch{wanted->key, wanted->need == Need::look, eager, wake, wanted->peer == asked, wanted->watch},
      {}, wake);
}

Result<Delivery> Subscriptions::get(std::string_view key, const engine::DialPtr& dial,
                                    std::optional<std::uint64_t> size, base::Deadline deadline,
                                    bool only_look) {
  if (!only_look) look_for_watched(key);
  while (true) {
    base::Event event;
    WantedPtr wanted;
    std::optional<Taken> taken;
    bool wait_for_answer = false;
    {
      const std::lock_guard lock(mutex_);
      if (closed_) return base::error(ErrorCode::closed, "get of ", key, ": the connector was closed");
      wanted = want(key, dial, only_look ? Need::look : Need::wait);
      if (wanted->state == State::failed) return take_error(*wanted);
      if (wanted->state == State::ready) {
        if (Status same = check_size(*wanted, size); !same) return same.error();
        if (wanted->is_eager()) {
          Delivery delivery = take_eager(*wanted);
          forget(wanted);
          return delivery;
        }
        taken = move_out(*wanted);
      } else if (only_look && (wanted->answered || wanted->looked)) {
        return base::error(ErrorCode::not_found, key, " is not there (yet)");
      } else {
        wait_for_answer = only_look;
        wanted->looked = true;
        wanted->waiters.add(&event);
      }
    }
    if (taken) {
      return receive(std::move(*taken),
                     only_look ? base::Deadline::after(std::chrono::seconds(30)) : deadline);
    }
    const bool rung = core_->wait(event, wait_for_answer ? base::Deadline::after(kFirstLook) : deadline);
    const std::lock_guard lock(mutex_);
    wanted->waiters.remove(&event);
    if (wanted->state == State::failed) return *wanted->error;
    if (rung || wanted->state == State::ready) continue;
    if (only_look) return base::error(ErrorCode::not_found, key, " is not there (yet)");
    ++counters_.timeouts;
    return waited_in_vain(*wanted);
  }
}

// What was watched ahead comes without waking anybody: it may be here, or come while this thread looks, and
// then its sender need not hear that somebody waits.
void Subscriptions::look_for_watched(std::string_view key) {
  core_->poll_messages();
  base::Event event;
  WantedPtr wanted;
  {
    const std::lock_guard lock(mutex_);
    const auto place = wanted_.find(key);
    if (place == wanted_.end()) return;
    wanted = place->second;
    if (wanted->state != State::waiting || wanted->need != Need::ahead) return;
    wanted->waiters.add(&event);
  }
  core_->wait_spinning(event);
  const std::lock_guard lock(mutex_);
  wanted->waiters.remove(&event);
}

void Subscriptions::watch(std::string_view key, const engine::DialPtr& dial,
                          std::function<void(Status)> callback) {
  const std::lock_guard lock(mutex_);
  if (closed_) {
    core_->run_on_loop([callback] { callback(Error(ErrorCode::closed, "the connector was closed")); });
    return;
  }
  const WantedPtr wanted = want(key, dial, callback ? Need::wait : Need::ahead);
  if (!callback) return;
  if (wanted->state == State::failed) {
    core_->run_on_loop([callback = std::move(callback), error = take_error(*wanted)] { callback(error); });
  } else if (wanted->state == State::ready) {
    core_->run_on_loop([callback = std::move(callback)] { callback({}); });
  } else {
    wanted->watcher = std::move(callback);
  }
}

// With mutex_ held: the payload is there. Whoever waits is told; an asynchronous get takes it at once.
void Subscriptions::settle(const WantedPtr& wanted) {
  wanted->state = State::ready;
  wanted->waiters.set_all();
  if (wanted->watcher) {
    core_->run_on_loop([callback = std::move(wanted->watcher)] { callback({}); });
    wanted->watcher = nullptr;
  }
  if (wanted->callback) call_back(wanted);
}

// With mutex_ held: it will never be there. Whoever waits is told, and the next get starts anew; if nobody
// waits, the next get is told.
void Subscriptions::fail(const WantedPtr& wanted, const Error& error) {
  if (wanted->state != State::waiting) return;
  wanted->state = State::failed;
  wanted->error = error.with_context(wanted->key);
  const bool told = !wanted->waiters.empty() || wanted->watcher || wanted->callback;
  wanted->waiters.set_all();
  if (wanted->watcher) {
    core_->run_on_loop(
        [callback = std::move(wanted->watcher), reason = *wanted->error] { callback(reason); });
  }
  if (wanted->callback) {
    core_->run_on_loop(
        [callback = std::move(wanted->callback), reason = *wanted->error] { callback(reason); });
  }
  if (told) wanted_.erase(wanted->key);
}

// Of one that failed while nobody waited: told once.
Error Subscriptions::take_error(Wanted& wanted) {
  Error error = *wanted.error;
  wanted_.erase(wanted.key);
  return error;
}

Subscriptions::Taken Subscriptions::move_out(Wanted& wanted) {
  Taken taken{wanted.key, wanted.peer, std::move(wanted.ready), std::move(wanted.payload),
              std::move(wanted.delivery)};
  wanted_.erase(wanted.key);
  return taken;
}

Delivery Subscriptions::take_eager(Wanted& wanted) {
  Delivery delivery(std::make_unique<EagerHolder>(wanted.ready, std::move(wanted.payload)));
  wanted_.erase(wanted.key);
  count(delivery);
  return delivery;
}

// With mutex_ held, of one that is ready. What does not fit the caller's metadata stays here for one that it
// fits (R02).
Status Subscriptions::check_size(const Wanted& wanted, std::optional<std::uint64_t> size) {
  const std::uint64_t actual = wanted.delivery ? wanted.delivery->size() : wanted.ready.size;
  if (!size || *size == actual) return {};
  return base::error(ErrorCode::conflict, wanted.key, ": the sender has ", actual,
                     " bytes, the metadata says ", *size);
}

Error Subscriptions::waited_in_vain(const Wanted& wanted) {
  const std::lock_guard lock(wanted.dial->mutex);
  if (wanted.dial->state == engine::Dial::State::calling) {
    return base::error(ErrorCode::unavailable, "get of ", wanted.key, ": nobody answers at ",
                       wanted.dial->name(), wanted.dial->trouble.empty() ? "" : ": " + wanted.dial->trouble);
  }
  return base::error(ErrorCode::timeout, "get of ", wanted.key, " from ", wanted.dial->name(),
                     ": the sender is there, the payload has not come");
}

void Subscriptions::abandon(std::string_view key, const engine::DialPtr& dial) {
  std::optional<Taken> unwanted;
  {
    const std::lock_guard lock(mutex_);
    engine::PeerPtr peer;
    std::uint64_t watch = 0;
    if (const auto place = wanted_.find(key); place != wanted_.end()) {
      const WantedPtr wanted = place->second;
      peer = wanted->peer;
      if (wanted->state == State::ready) {
        unwanted = move_out(*wanted);
      } else {
        watch = wanted->watch;
        if (!peer && unmet_.size() < kMostUnmet) unmet_.emplace(wanted->key, wanted->dial);
        fail(wanted, Error(ErrorCode::cancelled, "the get was abandoned"));
        wanted_.erase(wanted->key);
      }
    } else if (dial) {
      const std::lock_guard dial_lock(dial->mutex);
      peer = dial->peer;
    }
    if (peer) core_->send(*peer, wire::Unwatch{key, watch, true});
  }
  if (unwanted) give_back(*unwanted, false);
}

void Subscriptions::on_met(const engine::PeerPtr& peer, const engine::DialPtr& dial) {
  const std::lock_guard lock(mutex_);
  {
    const std::lock_guard peer_lock(peer->mutex);
    counters_.route_reason = peer->route_reason;
  }
  if (!dial) return;
  // Asked for and given up in one breath, so that the sender hears of it, and has told what it gave up
  // itself.
  std::erase_if(unmet_, [&](const auto& abandoned) {
    if (abandoned.second != dial) return false;
    wire::Watch watch;
    watch.key = abandoned.first;
    watch.eager = false;  // a payload that is there stays there
    watch.watch = ++last_watch_;
    core_->send(*peer, watch);
    core_->send(*peer, wire::Unwatch{watch.key, watch.watch, !wanted_.contains(watch.key)});
    return true;
  });
  for (const auto& entry : wanted_) {
    const WantedPtr& wanted = entry.second;
    if (wanted->dial == dial && wanted->state == State::waiting && wanted->peer != peer) send_watch(wanted);
  }
}

void Subscriptions::on_original(const engine::DialPtr& dial) {
  const std::lock_guard lock(mutex_);
  for (const auto& entry : wanted_) {
    if (entry.second->dial == dial && entry.second->state == State::waiting) originals_->start(entry.second);
  }
}

void Subscriptions::on_original_answer(const engine::DialPtr& dial, std::span<const std::byte> bytes) {
  originals_->answer(dial, bytes);
}

void Subscriptions::on_disconnected(const engine::DialPtr& dial) {
  originals_->disconnected(dial);
}

void Subscriptions::on_ready(const engine::PeerPtr& peer, wire::Ready&& ready, MessagePayload&& payload) {
  const std::lock_guard lock(mutex_);
  const auto place = wanted_.find(ready.key);
  const bool usable = ready.lease != 0 || payload.bytes().size() == ready.size;
  if (place == wanted_.end() || place->second->state != State::waiting ||
      place->second->watch != ready.watch || !usable) {
    // Given up meanwhile (R07), and perhaps wanted again: a pinned block stays published at the sender.
    ++counters_.late;
    if (ready.lease != 0) core_->send(*peer, wire::Release{ready.lease, false});
    return;
  }
  const WantedPtr wanted = place->second;
  wanted->peer = peer;
  const std::uint64_t now = now_ns();
  if (ready.put_time_ns != 0 && ready.put_time_ns < now && peer->desc.node_id == core_->desc().node_id) {
    latency_.record(now - ready.put_time_ns);
  }
  wanted->ready = std::move(ready);
  wanted->ready.key = {};
  wanted->payload = std::move(payload);
  settle(wanted);
}

void Subscriptions::on_gone(const engine::PeerPtr& peer, const wire::Gone& gone) {
  const std::lock_guard lock(mutex_);
  const auto place = wanted_.find(gone.key);
  if (place == wanted_.end() || place->second->peer != peer || place->second->state != State::waiting) return;
  const WantedPtr wanted = place->second;
  if (gone.watch != wanted->watch) return;
  if (gone.code == static_cast<std::uint32_t>(ErrorCode::not_found)) {
    wanted->answered = true;
    wanted->waiters.set_all();
    return;
  }
  fail(wanted,
       base::error(static_cast<ErrorCode>(gone.code), "given up by ", peer->desc.key, ": ", gone.reason));
}

void Subscriptions::on_lost(const engine::PeerPtr& peer, const Error& reason) {
  const std::lock_guard lock(mutex_);
  std::vector<WantedPtr> lost;
  for (const auto& entry : wanted_) {
    if (entry.second->peer == peer && entry.second->state == State::waiting) lost.push_back(entry.second);
  }
  for (const WantedPtr& wanted : lost) fail(wanted, reason);
  leased_.erase(peer.get());
  if (reason.code() == ErrorCode::unavailable) writer_lost(peer.get());
}

void Subscriptions::on_connection_ended(EventSink::PeerToken connection) {
  const std::lock_guard lock(mutex_);
  for (auto place = quarantines_.begin(); place != quarantines_.end();) {
    place->suspects.erase(connection);
    if (!place->suspects.empty()) {
      ++place;
      continue;
    }
    pool_->end_quarantine(place->block);
    place = quarantines_.erase(place);
  }
}

void Subscriptions::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  std::vector<WantedPtr> all;
  for (const auto& entry : wanted_) all.push_back(entry.second);
  for (const WantedPtr& wanted : all) fail(wanted, Error(ErrorCode::closed, "the connector was closed"));
  wanted_.clear();
  end_pulls(Error(ErrorCode::closed, "the connector was closed"));
}

// What nobody has asked about for a payload's time to live is forgotten, on both sides.
void Subscriptions::sweep() {
  std::vector<Taken> unwanted;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    collect_idle(unwanted);
  }
  for (const Taken& taken : unwanted) give_back(taken, false);
  core_->add_timer(base::Deadline::after(sweep_interval(ttl_), core_->clock()), [this] { sweep(); });
}

void Subscriptions::collect_idle(std::vector<Taken>& unwanted) {
  const base::TimePoint now = core_->clock().now();
  std::vector<WantedPtr> idle;
  for (const auto& entry : wanted_) {
    const Wanted& wanted = *entry.second;
    const bool in_use = !wanted.waiters.empty() || wanted.callback || wanted.watcher;
    if (!in_use && now - wanted.last_asked > ttl_) idle.push_back(entry.second);
  }
  for (const WantedPtr& wanted : idle) {
    if (wanted->state == State::ready) {
      unwanted.push_back(move_out(*wanted));
      continue;
    }
    if (wanted->peer && wanted->state == State::waiting) {
      core_->send(*wanted->peer, wire::Unwatch{wanted->key, wanted->watch, false}, {}, false);
    }
    wanted->state = State::failed;
    wanted_.erase(wanted->key);
  }
}

ReceiverCounters Subscriptions::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

}  // namespace stagewire::connector
