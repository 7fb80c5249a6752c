// One thread tells another that something has happened, once.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/clock.hpp"

namespace stagewire::base {

/// Set once, waited for by at most one thread at a time. The waiter sleeps on a futex, or, when it is busy
/// polling descriptors, is woken through the eventfd that it names. Setting it costs a system call only if
/// somebody sleeps.
class Event {
 public:
  void set();
  bool is_set() const { return state_.load(std::memory_order_acquire) == kSet; }

  /// Blocks until set (true) or the deadline has passed (false).
  bool wait(Deadline deadline);

  /// From here on set() also writes to `eventfd`, which must stay open until end_polling(). Returns false
  /// when the event is set already.
  bool begin_polling(int eventfd);
  void end_polling();

 private:
  // A state above kPolling is kPolling + the eventfd: one word, since the waiter may destroy this object as
  // soon as the word says kSet.
  static constexpr std::uint32_t kIdle = 0, kSet = 1, kSleeping = 2, kPolling = 16;
  std::atomic<std::uint32_t> state_{kIdle};
};

/// Threads that wait for the same thing, each with its own event. Not thread-safe.
class EventList {
 public:
  void add(Event* event) { events_.push_back(event); }
  bool empty() const { return events_.empty(); }
  void remove(Event* event) { std::erase(events_, event); }
  void set_all() {
    for (Event* event : events_) event->set();
    events_.clear();
  }

 private:
  std::vector<Event*> events_;
};

/// Adds one to an eventfd; a full counter is as good as a written one.
void ring_eventfd(int eventfd);
/// Takes the count back to zero.
void drain_eventfd(int eventfd);

/// Tells the processor that this is a spin loop.
inline void spin_pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace stagewire::base
