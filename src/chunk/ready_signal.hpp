// "There is something to take": raised by whatever thread has it, lowered by the one that takes.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <utility>

#include "stagewire/engine.hpp"

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
    }
    changed_.notify_all();
    const std::lock_guard lock(calling_mutex_);
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
  /// When it returns, the last call of on_raise is over.
  void close() {
    const std::lock_guard lock(calling_mutex_);
    on_raise_ = nullptr;
  }

 private:
  std::mutex calling_mutex_;
  std::function<void()> on_raise_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool raised_ = false;
};

}  // namespace stagewire::chunk
