// Completions on their way from whichever thread made them to the thread that calls progress().
#pragma once

#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "backend/wake_event.hpp"
#include "stagewire/backend.hpp"

namespace stagewire::backend {

class CompletionQueue {
 public:
  explicit CompletionQueue(WakeEvent& wake) : wake_(wake) {}

  /// Any thread.
  void push(std::uint64_t id, Status status) {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back({id, std::move(status)});
      waiting_.store(true, std::memory_order_release);
    }
    wake_.wake();
  }

  /// Any thread: something else has happened that progress() is to count as an event (an import has ended).
  void nudge() {
    {
      const std::lock_guard lock(mutex_);
      ++nudges_;
      waiting_.store(true, std::memory_order_release);
    }
    wake_.wake();
  }

  bool empty() {
    const std::lock_guard lock(mutex_);
    return queue_.empty() && nudges_ == 0;
  }

  /// Only the thread that calls progress(). Returns how many were delivered; costs one load when there are
  /// none.
  std::size_t deliver(EventSink& sink) {
    if (!waiting_.load(std::memory_order_acquire)) return 0;
    std::size_t count = 0;
    {
      const std::lock_guard lock(mutex_);
      taken_.swap(queue_);
      count = taken_.size() + std::exchange(nudges_, 0);
      waiting_.store(false, std::memory_order_relaxed);
    }
    for (Completion& completion : taken_) sink.on_completion(std::move(completion));
    taken_.clear();
    return count;
  }

 private:
  WakeEvent& wake_;
  std::mutex mutex_;
  std::vector<Completion> queue_;
  std::size_t nudges_ = 0;
  std::atomic<bool> waiting_{false};
  std::vector<Completion> taken_;  // of the progress thread; kept for its capacity
};

}  // namespace stagewire::backend
