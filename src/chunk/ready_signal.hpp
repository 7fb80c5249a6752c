// "There is something to take": raised by whatever thread has it, lowered by the one that takes.
#pragma once

#include <functional>
#include <mutex>
#include <utility>

#include "base/event.hpp"
#include "stagewire/connector.hpp"

namespace stagewire::chunk {

/// Shared by all who may raise it; some may still be about to when its owner has closed it.
class ReadySignal {
 public:
  explicit ReadySignal(std::function<void()> on_raise) : on_raise_(std::move(on_raise)) {}

  /// Not with a lock held that whoever is told may want.
  void raise() {
    {
      const std::lock_guard lock(mutex_);
      if (raised_) return;
      raised_ = true;
      waiters_.set_all();
    }
    const std::lock_guard lock(calling_mutex_);
    if (on_raise_) on_raise_();
  }
  void lower() {
    const std::lock_guard lock(mutex_);
    raised_ = false;
  }
  /// Whether it was raised in time. The connector works on this thread meanwhile.
  bool wait(Connector& connector, Milliseconds timeout) {
    const base::Deadline deadline = base::Deadline::after(timeout);
    while (true) {
      base::Event event;
      {
        const std::lock_guard lock(mutex_);
        if (raised_) return true;
        waiters_.add(&event);
      }
      const bool rung = connector.wait(event, time_left(deadline));
      const std::lock_guard lock(mutex_);
      waiters_.remove(&event);
      // Somebody else may have lowered it again.
      if (raised_ || !rung) return raised_;
    }
  }
  /// When it returns, the last call of on_raise is over.
  void close() {
    const std::lock_guard lock(calling_mutex_);
    on_raise_ = nullptr;
  }

 private:
  static Milliseconds time_left(base::Deadline deadline) {
    if (deadline.is_never()) return Milliseconds::max();
    return std::chrono::ceil<Milliseconds>(deadline.left(base::steady_clock().now()));
  }

  std::mutex calling_mutex_;
  std::function<void()> on_raise_;
  std::mutex mutex_;
  bool raised_ = false;
  base::EventList waiters_;
};

}  // namespace stagewire::chunk
