// An eventfd that is written only when somebody is about to sleep on it.
//
// The sleeper calls arm(), then looks once more whether there is work, then waits. Whoever makes work
// publishes it first and calls wake() after. Both sides' operations are sequentially consistent (or the work
// lies under a mutex that both take), so either the sleeper sees the work or the maker sees the armed flag.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "base/text.hpp"
#include "base/unique_fd.hpp"

namespace stagewire::backend {

class WakeEvent {
 public:
  Status open() {
    fd_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!fd_) return base::system_error("eventfd", errno);
    return {};
  }
  int fd() const { return fd_.get(); }

  void arm() { armed_.store(true); }
  void disarm() { armed_.store(false); }
  /// Any thread.
  void wake() {
    if (!armed_.load() || !armed_.exchange(false)) return;
    const std::uint64_t one = 1;
    // Fails only when the counter is full, and then it is readable already.
    if (::write(fd_.get(), &one, sizeof one) < 0) return;
    rung_.store(true);
  }
  /// The thread that sleeps on fd(): what rang before was for an earlier sleep. Costs a system call only if
  /// it did.
  void forget() {
    if (!rung_.load(std::memory_order_relaxed) || !rung_.exchange(false)) return;
    std::uint64_t count = 0;
    if (::read(fd_.get(), &count, sizeof count) < 0) return;
  }

 private:
  base::UniqueFd fd_;
  std::atomic<bool> armed_{false};
  std::atomic<bool> rung_{false};  ///< set after the write: one that is seen too late wakes once for nothing
};

}  // namespace stagewire::backend
