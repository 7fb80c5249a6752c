// A count of things that have happened, which threads can wait on.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "stagewire/engine.hpp"

namespace stagewire::python {

class Changes {
 public:
  void happened() {
    {
      const std::lock_guard lock(mutex_);
      ++count_;
    }
    changed_.notify_all();
  }
  std::uint64_t count() const {
    const std::lock_guard lock(mutex_);
    return count_;
  }
  /// Blocks until the count is not `seen`, or `timeout` has passed; returns the count.
  std::uint64_t wait(std::uint64_t seen, Milliseconds timeout) const {
    constexpr Milliseconds kLongest = std::chrono::hours(24 * 365);  // what a clock can add
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::min(timeout, kLongest), [&] { return count_ != seen; });
    return count_;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::uint64_t count_ = 0;
};

}  // namespace stagewire::python
