// One thread that does what takes too long for the threads of the callers: large copies, mapping regions.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "stagewire/result.hpp"

namespace stagewire::backend {

class Worker {
 public:
  class Job {
   public:
    explicit Job(const void* owner) : owner_(owner) {}
    virtual ~Job() = default;
    /// Does some of the work, for about a millisecond at most. True when the job has ended and has told so.
    virtual bool step() = 0;
    /// Called instead of a further step() when its owner goes away: tells that it ended without success.
    virtual void abandon() = 0;
    const void* owner() const { return owner_; }

   private:
    const void* const owner_;
  };

  Worker() = default;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  /// Abandons what is left.
  ~Worker();

  /// False when the queue is full; then, and after an error, the job stays the caller's. The thread is
  /// started by the first job: `exhausted` when there is none to be had, which the next job tries again.
  Result<bool> push(std::unique_ptr<Job>& job);
  /// Abandons the owner's jobs; returns when none of them runs any more (it waits for one step at most).
  void cancel(const void* owner);

 private:
  static constexpr std::size_t kQueue = 256;

  void run();

  std::mutex mutex_;
  std::condition_variable work_;       // there is a job, or the end
  std::condition_variable step_done_;  // running_ has changed
  std::deque<std::unique_ptr<Job>> queue_;
  const void* running_ = nullptr;  // owner of the job whose step() is under way
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace stagewire::backend
