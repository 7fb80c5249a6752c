// "There is something to take": raised by whatever thread has it, lowered by the one that takes.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <utility>

#include "stagewire/engine.hpp"

namespace stagewire::chunk {

class ReadySignal {
 public:
  explicit ReadySignal(std::function<void()> on_raise) : on_raise_(std::move(on_raise)) {}

  /// Not with a lock held that whoever is told may want. Must not be called after the owner of `on_raise` has
  /// gone.
  void raise() {
    {
      const std::lock_guard lock(mutex_);
      if (raised_) return;
      raised_ = true;
    }
    changed_.notify_all();
    if (on_raise_) on_raise_();
  }
  void lower() {
    const std::lock_guard lock(mutex_);
    raised_ = false;
  }
  bool wait(Milliseconds timeout) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout, [this] { return raised_; });
  }

 private:
  const std::function<void()> on_raise_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool raised_ = false;
};

}  // namespace stagewire::chunk
