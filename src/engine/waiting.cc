// Waiting: a thread that waits makes the backends progress itself, so that the message it waits for wakes it
// and nobody else. It spins first where the strategy says so, then borrows the backends' descriptors from the
// progress thread and sleeps on them.
#include <poll.h>
#include <sys/epoll.h>

#include "engine/core.hpp"
#include "engine/sinks.hpp"

namespace stagewire::engine {
namespace {

// `adaptive` spins for twice what waits have taken lately, within these bounds, and only when something
// arrived a few of them ago: a regular stream that is faster than a handful of wakes never pays for one, a
// slower one gives its core back, and an idle pair never spins. The shortest is twice a cross-core wake.
constexpr base::Duration kShortestSpin = std::chrono::microseconds(20);
constexpr base::Duration kLongestSpin = std::chrono::microseconds(200);
constexpr int kSpinsThatAreRecent = 5;

// A turn ends after so many rounds even if events keep coming, so that timers and the control plane get
// theirs.
constexpr int kMaxRounds = 64;

// The core for which this thread is in wait_and_call_back().
thread_local const Core* calls_back_for = nullptr;

}  // namespace

// With progress_mutex_ held.
std::size_t Core::progress_locked(bool messages_only) {
  std::size_t events = 0;
  for (auto& backend : *backends_) events += backend->progress(*events_, messages_only);
  if (busy_count_.load(std::memory_order_acquire) > 0) events += flush_busy();
  if (!messages_only) check_endpoints();
  return events;
}

// With progress_mutex_ held: until nothing is left to do and all backends are armed.
std::size_t Core::progress_until_armed(bool* armed) {
  std::size_t events = 0;
  for (int round = 0; round < kMaxRounds; ++round) {
    // Connections once; what rang for the later rounds is a message, and costs no system call to look at.
    const std::size_t now = progress_locked(round > 0);
    events += now;
    if (now > 0) continue;
    bool all = true;
    for (auto& backend : *backends_) all = backend->arm() && all;
    if (all) {
      *armed = true;
      return events;
    }
  }
  *armed = false;
  return events;
}

// Waits for the lock: its holder may be a thread that is not running just now, and the descriptors stay
// readable until somebody has looked.
std::size_t Core::progress_and_arm(bool* armed) {
  *armed = true;
  if (left_to_spinners()) return 0;
  const std::lock_guard lock(progress_mutex_);
  return progress_until_armed(armed);
}

// While a caller spins, it is the one who looks; it arms when it leaves. A descriptor that rings meanwhile
// would only wake us for nothing, so it is not watched until the last spinner has left.
bool Core::left_to_spinners() {
  if (spinners_.load() == 0) return false;
  unwatched_for_spinners_ = true;
  watch_backends(false);
  if (spinners_.load() > 0) return true;
  if (unwatched_for_spinners_.exchange(false)) watch_backends(true);
  return false;
}

// What has come since somebody last looked, without a system call.
void Core::poll_messages() {
  bool armed = true;
  {
    const std::unique_lock lock(progress_mutex_, std::try_to_lock);
    if (!lock || spinners_.load() > 0) return;  // somebody is looking
    progress_locked(true);
    for (auto& backend : *backends_) armed = backend->arm() && armed;
  }
  if (!armed) wake_loop();
}

void Core::poll() {
  bool armed = true;
  {
    const std::unique_lock lock(progress_mutex_, std::try_to_lock);
    if (!lock || spinners_.load() > 0) return;  // somebody is looking
    progress_until_armed(&armed);
  }
  if (!armed) wake_loop();
}

bool Core::calls_back() const {
  return calls_back_for == this;
}

bool Core::wait_and_call_back(base::Event& event, base::Deadline deadline) {
  const Core* const before = std::exchange(calls_back_for, this);
  const bool rung = wait(event, deadline);
  run_callbacks();
  calls_back_for = before;
  return rung || event.is_set();
}

bool Core::wait(base::Event& event, base::Deadline deadline) {
  if (event.is_set()) return true;
  if (!options_.engine.progress_thread) {
    // Waits are by the wall: the engine's own clock, which a test may hold still, is for timers.
    while (!event.is_set()) {
      const base::TimePoint now = base::steady_clock().now();
      if (deadline.passed(now)) break;
      turn(std::min(deadline.left(now), base::Duration(std::chrono::seconds(1))));
    }
    return event.is_set();
  }
  switch (options_.engine.wait) {
    case WaitStrategy::block:
      return drive(event, deadline);
    case WaitStrategy::spin:
      return spin(event, deadline) || drive(event, deadline);
    case WaitStrategy::adaptive:
      break;
  }
  return wait_adaptively(event, deadline);
}

// How long `adaptive` spins now.
base::Duration Core::adaptive_spin(base::TimePoint now) const {
  const base::Duration twice(2 * typical_wait_ns_.load(std::memory_order_relaxed));
  const base::Duration spin_time = twice > kLongestSpin ? kShortestSpin : std::max(twice, kShortestSpin);
  const base::Duration since(now.time_since_epoch().count() -
                             last_traffic_ns_.load(std::memory_order_relaxed));
  return since < kSpinsThatAreRecent * spin_time ? spin_time : base::Duration::zero();
}

bool Core::wait_spinning(base::Event& event) {
  if (!options_.engine.progress_thread || options_.engine.wait == WaitStrategy::block) return event.is_set();
  const base::TimePoint now = base::steady_clock().now();
  const base::Duration spin_time =
      options_.engine.wait == WaitStrategy::spin ? kLongestSpin : adaptive_spin(now);
  if (spin_time == base::Duration::zero()) return event.is_set();
  return spin(event, base::Deadline::at(now + spin_time));
}

bool Core::wait_adaptively(base::Event& event, base::Deadline deadline) {
  const base::TimePoint start = base::steady_clock().now();
  const base::Duration spin_time = adaptive_spin(start);
  bool done = false;
  if (spin_time > base::Duration::zero())
    done = spin(event, base::Deadline::at(std::min(deadline.when(), start + spin_time)));
  if (!done) done = drive(event, deadline);
  const std::int64_t typical = typical_wait_ns_.load(std::memory_order_relaxed);
  // Threads that wait at once may lose one another's figures: it is an estimate.
  const base::Duration took = std::min<base::Duration>(base::steady_clock().now() - start, 5 * kLongestSpin);
  typical_wait_ns_.store(typical + (took.count() - typical) / 4, std::memory_order_relaxed);
  return done;
}

bool Core::spin(base::Event& event, base::Deadline give_up) {
  constexpr unsigned kLooksBetweenClockReads = 16;
  constexpr unsigned kLooksBetweenFullTurns = 1024;  // connections, and peers that are gone
  spinners_.fetch_add(1);
  const bool helps = calls_back();
  bool done = event.is_set();
  for (unsigned look = 1; !done; ++look) {
    if (progress_mutex_.try_lock()) {
      progress_locked(look % kLooksBetweenFullTurns != 0);
      progress_mutex_.unlock();
      if (helps) run_callbacks();
    }
    done = event.is_set();
    if (done || (look % kLooksBetweenClockReads == 0 && give_up.passed(base::steady_clock().now()))) break;
    base::spin_pause();
  }
  const bool last = spinners_.fetch_sub(1) == 1;
  bool armed = true;
  {
    const std::lock_guard lock(progress_mutex_);
    for (auto& backend : *backends_) armed = backend->arm() && armed;
    if (!armed) progress_until_armed(&armed);
  }
  if (last && unwatched_for_spinners_.exchange(false)) watch_backends(true);
  if (!armed) wake_loop();
  return done || event.is_set();
}

bool Core::drive(base::Event& event, base::Deadline deadline) {
  if (calls_back()) run_callbacks();
  const std::unique_lock driver(driver_mutex_, std::try_to_lock);
  if (!driver) return event.wait(deadline);

  watch_backends(false);
  while (!event.is_set()) {
    bool armed = false;
    progress_and_arm(&armed);
    if (calls_back()) run_callbacks();
    if (event.is_set()) break;
    const base::TimePoint now = base::steady_clock().now();
    if (deadline.passed(now)) break;
    if (!armed) continue;
    if (!event.begin_polling(driver_wake_.get())) break;
    wait_fds_.back().revents = 0;
    const base::Duration left =
        deadline.is_never() ? base::Duration(std::chrono::hours(1)) : deadline.left(now);
    timespec timeout{};
    timeout.tv_sec = static_cast<time_t>(left.count() / 1'000'000'000);
    timeout.tv_nsec = static_cast<long>(left.count() % 1'000'000'000);
    ppoll(wait_fds_.data(), wait_fds_.size(), &timeout, nullptr);
    event.end_polling();
    if ((wait_fds_.back().revents & POLLIN) != 0) base::drain_eventfd(driver_wake_.get());
  }
  watch_backends(true);
  return event.is_set();
}

// Takes the backends' descriptors from the progress thread's set while it sleeps on it, and puts them back:
// epoll wakes it at the latter if they are readable, so nothing is lost in between.
void Core::watch_backends(bool on) {
  epoll_event event{};
  event.events = on ? static_cast<std::uint32_t>(EPOLLIN) : 0U;
  event.data.fd = backends_epoll_.get();
  epoll_ctl(loop_epoll_.get(), EPOLL_CTL_MOD, backends_epoll_.get(), &event);
}

void Core::want_everything(bool on) {
  const int before = wanting_everything_.fetch_add(on ? 1 : -1);
  if (on ? before > 0 : before > 1) return;
  for (auto& backend : *backends_) backend->want_everything(on);
  if (on) poll();  // arms anew, for everything
}

}  // namespace stagewire::engine
