// The progress thread: control plane, backends (while no caller has borrowed them), timers, and work handed
// to it; and what everybody who makes progress checks.
#include <sys/epoll.h>

#include <array>

#include "base/text.hpp"
#include "engine/core.hpp"
#include "engine/sinks.hpp"

namespace stagewire::engine {

void Core::run_loop() {
  loop_thread_ = std::this_thread::get_id();
  while (!stopping_) turn(std::chrono::hours(1));
  run_work();
  run_callbacks();
}

std::size_t Core::progress(base::Duration wait) {
  loop_thread_ = std::this_thread::get_id();
  return turn(wait);
}

// One turn: everything that is due, then, if nothing was, a wait of at most `wait`.
std::size_t Core::turn(base::Duration wait) {
  std::size_t events = run_work() + run_callbacks();
  events += control_->progress(*control_events_);
  if (wait == base::Duration::zero()) {  // a look: nobody sleeps, so nothing has to wake
    {
      const std::lock_guard lock(progress_mutex_);
      events += progress_locked(false);
    }
    return events + run_timers();
  }
  bool armed = true;
  events += progress_and_arm(&armed);
  events += run_timers() + run_callbacks();
  if (events > 0 || !armed || stopping_) return events;

  const base::Duration most = until_next_timer(wait);
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(most).count();
  std::array<epoll_event, 4> ready{};
  const int count = epoll_wait(loop_epoll_.get(), ready.data(), static_cast<int>(ready.size()),
                               static_cast<int>(std::min<std::int64_t>(milliseconds, INT32_MAX)));
  for (int i = 0; i < count; ++i) {
    if (ready[static_cast<std::size_t>(i)].data.fd == loop_wake_.get()) base::drain_eventfd(loop_wake_.get());
  }
  return 0;
}

void Core::run_on_loop(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
  }
  wake_loop();
}

void Core::wake_loop() {
  if (loop_thread_.load() != std::this_thread::get_id() || stopping_) base::ring_eventfd(loop_wake_.get());
}

std::size_t Core::run_work() {
  std::vector<std::function<void()>> work;
  {
    const std::lock_guard lock(mutex_);
    work.swap(work_);
  }
  for (auto& item : work) item();
  return work.size();
}

void Core::callbacks_are_due() {
  // Who finds them due already has not run them yet, and will.
  if (!callbacks_due_.exchange(true) && !calls_back()) wake_loop();
}

std::size_t Core::run_callbacks() {
  std::size_t rounds = 0;
  while (callbacks_due_.load(std::memory_order_relaxed) && callbacks_due_.exchange(false)) {
    options_.handler->run_callbacks();
    ++rounds;
  }
  return rounds;
}

Core::TimerId Core::add_timer(base::Deadline when, std::function<void()> callback) {
  if (when.is_never()) return 0;
  bool first = false;
  TimerId id = 0;
  {
    const std::lock_guard lock(mutex_);
    id = next_timer_++;
    first = timers_.empty() || when.when() < timers_.begin()->first;
    timer_places_[id] = timers_.emplace(when.when(), std::make_pair(id, std::move(callback)));
  }
  if (first) wake_loop();
  return id;
}

bool Core::cancel_timer(TimerId timer) {
  const std::lock_guard lock(mutex_);
  const auto place = timer_places_.find(timer);
  if (place == timer_places_.end()) return false;
  timers_.erase(place->second);
  timer_places_.erase(place);
  return true;
}

std::size_t Core::run_timers() {
  std::vector<std::function<void()>> due;
  {
    const std::lock_guard lock(mutex_);
    const auto end = timers_.upper_bound(clock().now());
    for (auto it = timers_.begin(); it != end; ++it) {
      timer_places_.erase(it->second.first);
      due.push_back(std::move(it->second.second));
    }
    timers_.erase(timers_.begin(), end);
  }
  for (auto& callback : due) callback();
  return due.size();
}

base::Duration Core::until_next_timer(base::Duration at_most) {
  const std::lock_guard lock(mutex_);
  if (!work_.empty() || callbacks_due_.load()) return base::Duration::zero();
  if (timers_.empty()) return at_most;
  return std::min(at_most, base::Deadline::at(timers_.begin()->first).left(clock().now()));
}

// With progress_mutex_ held: endpoints that failed. One that never came up leaves its peer to the control
// plane, one that was up takes its peer with it.
void Core::check_endpoints() {
  add_peers(checked_peers_);
  for (const PeerPtr& peer : checked_peers_) {
    std::optional<Error> lost;
    {
      const std::lock_guard lock(peer->mutex);
      if (!peer->endpoint) continue;
      const auto status = peer->endpoint->status();
      if (!status) continue;
      if (status->ok()) {
        peer->was_up = true;
        continue;
      }
      if (peer->was_up || (peer->dial == 0 && peer->caller.empty())) {
        lost = base::error(ErrorCode::unavailable, "lost ", peer->desc.key, ": ", status->error().message());
      } else {
        peer->route_reason =
            base::text("control plane only; ", peer->backend->name(), ": ", status->error().message());
        base::log(LogLevel::warning, "engine", peer->desc.key, " is reached over the ", peer->route_reason);
        peer->imports.clear();
        peer->endpoint.reset();
        peer->backend = nullptr;
        for (QueuedMessage& message : peer->outbox) send_over_control(*peer, std::move(message.bytes));
        peer->outbox.clear();
      }
    }
    if (lost) drop_peer(peer, *lost);
  }
  checked_peers_.clear();
}

}  // namespace stagewire::engine
