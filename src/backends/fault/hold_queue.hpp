// Events that are delivered later than they happened.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>

#include "base/clock.hpp"
#include "stagewire/backend.hpp"

namespace stagewire::backends::fault {

struct HeldEvent {
  base::TimePoint due;
  EventSink::PeerToken peer = 0;  ///< 0: of no peer
  std::function<void(EventSink&)> deliver;
};

/// Thread-safe. Delivers without its lock held.
class HoldQueue {
 public:
  /// `overtaken`: goes behind the next event, or alone 1 ms after it is due when none has come.
  void push(HeldEvent event, bool overtaken);
  /// `more_may_follow`: what waits to be overtaken goes on waiting, so that the order of what is there
  /// already does not depend on how long it takes to look at it.
  std::size_t deliver_due(EventSink& sink, base::TimePoint now, bool more_may_follow);
  /// All of one peer, due or not: it is lost, nothing may follow.
  void deliver_all_of(EventSink& sink, EventSink::PeerToken peer);
  bool empty() const { return size_.load(std::memory_order_acquire) == 0; }
  /// When the next one is due.
  std::optional<base::TimePoint> next_due();

 private:
  using Choice = std::function<bool(const HeldEvent&)>;
  std::size_t deliver(EventSink& sink, const Choice& chosen, bool with_overtaken);

  std::mutex mutex_;
  std::deque<HeldEvent> events_;
  std::optional<HeldEvent> overtaken_;
  std::atomic<std::size_t> size_{0};
};

}  // namespace stagewire::backends::fault
