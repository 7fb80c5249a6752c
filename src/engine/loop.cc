// The progress thread: control plane, backends (while no caller has borrowed them), timers, and work handed
// to it.
#include <sys/epoll.h>

#include <array>

#include "engine/core.hpp"
#include "engine/sinks.hpp"

namespace stagewire::engine {

void Core::run_loop() {
  loop_thread_ = std::this_thread::get_id();
  while (!stopping_) turn(std::chrono::hours(1));
  run_work();
}

std::size_t Core::progress(base::Duration wait) {
  loop_thread_ = std::this_thread::get_id();
  return turn(wait);
}

// One turn: everything that is due, then, if nothing was, a wait of at most `wait`.
std::size_t Core::turn(base::Duration wait) {
  std::size_t events = run_work();
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
  events += run_timers();
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
  if (!work_.empty()) return base::Duration::zero();
  if (timers_.empty()) return at_most;
  return std::min(at_most, base::Deadline::at(timers_.begin()->first).left(clock().now()));
}

}  // namespace stagewire::engine
