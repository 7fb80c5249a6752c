#include "backend/worker.hpp"

#include <pthread.h>
#include <signal.h>

#include <vector>

#include "base/thread.hpp"

namespace stagewire::backend {
namespace {

// Signals are the application's: its threads take them.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  if (thread_.joinable()) thread_.join();
  for (const auto& job : queue_) job->abandon();
}

Result<bool> Worker::push(std::unique_ptr<Job>& job) {
  {
    const std::lock_guard lock(mutex_);
    if (queue_.size() >= kQueue) return false;
    if (!thread_.joinable()) {
      const SignalsBlocked inherited_by_the_thread;
      const Status started = base::start_thread(thread_, "the thread for large copies", [this] { run(); });
      if (!started) return started.error();
      pthread_setname_np(thread_.native_handle(), "stagewire-copy");
    }
    queue_.push_back(std::move(job));
  }
  work_.notify_one();
  return true;
}

void Worker::cancel(const void* owner) {
  std::vector<std::unique_ptr<Job>> cancelled;
  {
    std::unique_lock lock(mutex_);
    step_done_.wait(lock, [&] { return running_ != owner; });
    std::erase_if(queue_, [&](std::unique_ptr<Job>& job) {
      if (job->owner() != owner) return false;
      cancelled.push_back(std::move(job));
      return true;
    });
  }
  for (const auto& job : cancelled) job->abandon();
}

// A job that has not ended goes back to the front, so that cancel() finds it between two steps.
void Worker::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    std::unique_ptr<Job> job = std::move(queue_.front());
    queue_.pop_front();
    running_ = job->owner();
    lock.unlock();
    const bool ended = job->step();
    if (ended) job.reset();
    lock.lock();
    running_ = nullptr;
    if (job) queue_.push_front(std::move(job));
    step_done_.notify_all();
  }
}

}  // namespace stagewire::backend
