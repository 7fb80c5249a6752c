// Wakes a thread that waits for several things at once.
#pragma once

#include <condition_variable>
#include <mutex>

#include "base/clock.hpp"

namespace stagewire::pipeline::omni {

/// Any thread may ring; one waits.
class WakeUp {
 public:
  void ring() {
    // Under the lock, so that whoever waits can be destroyed as soon as it knows.
    const std::lock_guard lock(mutex_);
    rung_ = true;
    changed_.notify_one();
  }
  /// Blocks until it has been rung since the last call, or the time has come.
  void wait_until(base::TimePoint time) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, time, [this] { return rung_; });
    rung_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool rung_ = false;
};

}  // namespace stagewire::pipeline::omni
