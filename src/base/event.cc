#include "base/event.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

namespace stagewire::base {
namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t), "a futex word is 32 bits");

// The absolute time is CLOCK_MONOTONIC, which is what steady_clock reads.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, Deadline deadline) {
  timespec when{};
  if (!deadline.is_never()) {
    const auto since_epoch = deadline.when().time_since_epoch().count();
    when.tv_sec = static_cast<time_t>(since_epoch / 1'000'000'000);
    when.tv_nsec = static_cast<long>(since_epoch % 1'000'000'000);
  }
  syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, expected, deadline.is_never() ? nullptr : &when,
          nullptr, FUTEX_BITSET_MATCH_ANY);
}

void futex_wake(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

}  // namespace

void Event::set() {
  const std::uint32_t before = state_.exchange(kSet, std::memory_order_acq_rel);
  if (before == kSleeping) {
    futex_wake(state_);
  } else if (before >= kPolling) {
    ring_eventfd(static_cast<int>(before - kPolling));
  }
}

bool Event::wait(Deadline deadline) {
  while (true) {
    std::uint32_t state = state_.load(std::memory_order_acquire);
    if (state == kSet) return true;
    if (deadline.passed(steady_clock().now())) {
      state = kSleeping;
      state_.compare_exchange_strong(state, kIdle, std::memory_order_acq_rel);
      return is_set();
    }
    if (state == kSleeping || state_.compare_exchange_strong(state, kSleeping, std::memory_order_acq_rel)) {
      futex_wait(state_, kSleeping, deadline);
    }
  }
}

bool Event::begin_polling(int eventfd) {
  std::uint32_t idle = kIdle;
  return state_.compare_exchange_strong(idle, kPolling + static_cast<std::uint32_t>(eventfd),
                                        std::memory_order_acq_rel);
}

void Event::end_polling() {
  std::uint32_t state = state_.load(std::memory_order_acquire);
  if (state >= kPolling) state_.compare_exchange_strong(state, kIdle, std::memory_order_acq_rel);
}

void ring_eventfd(int eventfd) {
  const std::uint64_t one = 1;
  while (write(eventfd, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void drain_eventfd(int eventfd) {
  std::uint64_t count = 0;
  while (read(eventfd, &count, sizeof count) < 0 && errno == EINTR) {
  }
}

}  // namespace stagewire::base
