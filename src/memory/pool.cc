#include "memory/pool.hpp"

#include <algorithm>
#include <condition_variable>
#include <list>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "memory/block_table.hpp"

namespace stagewire::memory {
namespace {

using Offset = Pool::Offset;

/// Callbacks that are due. Declared before the lock is taken, so that they run after it was given back.
class DueCallbacks {
 public:
  DueCallbacks() = default;
  DueCallbacks(const DueCallbacks&) = delete;
  DueCallbacks& operator=(const DueCallbacks&) = delete;
  ~DueCallbacks() {
    for (auto& [callback, result] : due_) callback(std::move(result));
  }
  void add(Pool::Allocated callback, Result<Offset> result) {
    due_.emplace_back(std::move(callback), std::move(result));
  }

 private:
  std::vector<std::pair<Pool::Allocated, Result<Offset>>> due_;
};

/// A thread inside allocate(). On its stack; guarded by the pool's lock.
struct BlockedThread {
  std::condition_variable wake;
  std::optional<Result<Offset>> result;
};

/// Who waits for space. Either a thread or a callback.
struct Waiter {
  Pool::WaitId id;
  std::uint64_t size;
  base::Deadline deadline;
  BlockedThread* thread;
  Pool::Allocated callback;
};
using Line = std::list<Waiter>;  ///< in order of arrival

class HostPool final : public Pool {
 public:
  explicit HostPool(std::unique_ptr<HostSlab> slab)
      : slab_(std::move(slab)), blocks_(slab_->bytes().size(), kAlignment) {}
  ~HostPool() override { HostPool::close(); }

  std::span<std::byte> bytes() const override { return slab_->bytes(); }
  MemoryRegion region() const override {
    return {.data = bytes().data(),
            .size = bytes().size(),
            .kind = MemoryKind::cpu,
            .device = -1,
            .fd = slab_->fd()};
  }
  const std::string& page_kind() const override { return slab_->page_kind(); }

  Result<Offset> allocate(std::uint64_t size, base::Deadline deadline, Claim claim) override;
  WaitId allocate_async(std::uint64_t size, base::Deadline deadline, Allocated callback,
                        Claim claim) override;
  void make_full(WaitId wait) override;
  base::Deadline expire(base::TimePoint now) override;

  void publish(Offset block) override { apply(block, BlockEvent::publish); }
  void pin(Offset block) override { apply(block, BlockEvent::pin); }
  void unpin(Offset block) override { apply(block, BlockEvent::unpin); }
  bool retire(Offset block) override { return apply(block, BlockEvent::retire) != BlockState::free; }
  void grant(Offset block) override { apply(block, BlockEvent::grant); }
  void end_grant(Offset block) override { apply(block, BlockEvent::end_grant); }
  void quarantine(Offset block) override { apply(block, BlockEvent::quarantine); }
  void end_quarantine(Offset block) override { apply(block, BlockEvent::end_quarantine); }
  void free(Offset block) override { apply(block, BlockEvent::free); }

  std::uint64_t size_of(Offset block) const override {
    const std::lock_guard lock(mutex_);
    return blocks_.size_of(block);
  }
  std::uint32_t pins(Offset block) const override {
    const std::lock_guard lock(mutex_);
    return blocks_.status_of(block).pins;
  }
  PoolStats stats() const override;
  void close() override;

 private:
  // All private functions but apply() are called with the lock held.
  BlockState apply(Offset block, BlockEvent event);
  std::optional<Result<Offset>> try_allocate(std::uint64_t size, base::Deadline deadline, Claim claim);
  std::optional<Offset> allocate_now(std::uint64_t size, Claim claim);
  Line& line_of(Claim claim) { return claim == Claim::full ? waiters_ : spare_waiters_; }
  static Line::iterator finish(Line& line, Line::iterator waiter, Result<Offset> result, DueCallbacks& due);
  void serve_waiters(DueCallbacks& due);
  void expire(Line& line, base::TimePoint now, Claim claim, DueCallbacks& due);
  Error no_space(ErrorCode code, std::uint64_t size, Claim claim) const;

  const std::unique_ptr<HostSlab> slab_;
  mutable std::mutex mutex_;
  BlockTable blocks_;
  Line waiters_;        ///< full claims
  Line spare_waiters_;  ///< served when there are no others
  WaitId last_wait_ = 0;
  bool closed_ = false;
};

Result<Offset> HostPool::allocate(std::uint64_t size, base::Deadline deadline, Claim claim) {
  DueCallbacks due;
  std::unique_lock lock(mutex_);
  if (auto result = try_allocate(size, deadline, claim)) return *std::move(result);

  BlockedThread self;
  Line& line = line_of(claim);
  const auto waiter = line.insert(line.end(), {++last_wait_, size, deadline, &self, {}});
  while (!self.result) {
    if (deadline.is_never()) {
      self.wake.wait(lock);
    } else if (self.wake.wait_until(lock, deadline.when()) == std::cv_status::timeout && !self.result) {
      finish(line, waiter, no_space(ErrorCode::timeout, size, claim), due);
      serve_waiters(due);  // those behind may fit
    }
  }
  return *std::move(self.result);
}

Pool::WaitId HostPool::allocate_async(std::uint64_t size, base::Deadline deadline, Allocated callback,
                                      Claim claim) {
  DueCallbacks due;
  const std::lock_guard lock(mutex_);
  if (auto result = try_allocate(size, deadline, claim)) {
    due.add(std::move(callback), *std::move(result));
    return 0;
  }
  line_of(claim).push_back({++last_wait_, size, deadline, nullptr, std::move(callback)});
  return last_wait_;
}

void HostPool::make_full(WaitId wait) {
  DueCallbacks due;
  const std::lock_guard lock(mutex_);
  const auto waiter = std::find_if(spare_waiters_.begin(), spare_waiters_.end(),
                                   [&](const Waiter& candidate) { return candidate.id == wait; });
  // A thread is inside allocate() with its place in this line.
  if (waiter == spare_waiters_.end() || waiter->thread != nullptr) return;
  waiters_.splice(waiters_.end(), spare_waiters_, waiter);
  serve_waiters(due);
}

/// nullopt: the caller has to wait.
std::optional<Result<Offset>> HostPool::try_allocate(std::uint64_t size, base::Deadline deadline,
                                                     Claim claim) {
  if (closed_) return base::error(ErrorCode::closed, "the pool is closed");
  if (size == 0) return base::error(ErrorCode::invalid_argument, "a block of 0 bytes asked for");
  if (size > blocks_.size()) {
    return base::error(ErrorCode::too_large, "a block of ", size, " bytes can never fit the pool of ",
                       blocks_.size(), " bytes: raise memory_pool_size");
  }
  if (waiters_.empty() && (claim == Claim::full || spare_waiters_.empty())) {
    if (const auto block = allocate_now(size, claim)) return Result<Offset>(*block);
  }
  if (deadline.passed(base::steady_clock().now())) return no_space(ErrorCode::exhausted, size, claim);
  return std::nullopt;
}

std::optional<Offset> HostPool::allocate_now(std::uint64_t size, Claim claim) {
  if (claim == Claim::spare && blocks_.stats().free < blocks_.size() / 2 + size) return std::nullopt;
  return blocks_.allocate(size);
}

base::Deadline HostPool::expire(base::TimePoint now) {
  DueCallbacks due;
  const std::lock_guard lock(mutex_);
  expire(waiters_, now, Claim::full, due);
  expire(spare_waiters_, now, Claim::spare, due);
  serve_waiters(due);
  base::Deadline next = base::Deadline::never();
  for (const Line* line : {&waiters_, &spare_waiters_}) {
    for (const Waiter& waiter : *line) {
      if (waiter.deadline.when() < next.when()) next = waiter.deadline;
    }
  }
  return next;
}

void HostPool::expire(Line& line, base::TimePoint now, Claim claim, DueCallbacks& due) {
  for (auto waiter = line.begin(); waiter != line.end();) {
    waiter = waiter->deadline.passed(now)
                 ? finish(line, waiter, no_space(ErrorCode::timeout, waiter->size, claim), due)
                 : std::next(waiter);
  }
}

BlockState HostPool::apply(Offset block, BlockEvent event) {
  DueCallbacks due;
  const std::lock_guard lock(mutex_);
  const BlockState state = blocks_.apply(block, event);
  if (state == BlockState::free) serve_waiters(due);
  return state;
}

/// In order, up to the first that does not fit: a big request is not starved by small ones behind it.
void HostPool::serve_waiters(DueCallbacks& due) {
  for (const Claim claim : {Claim::full, Claim::spare}) {
    Line& line = line_of(claim);
    while (!line.empty()) {
      const auto block = allocate_now(line.front().size, claim);
      if (!block) return;
      finish(line, line.begin(), *block, due);
    }
  }
}

Line::iterator HostPool::finish(Line& line, Line::iterator waiter, Result<Offset> result, DueCallbacks& due) {
  if (waiter->thread != nullptr) {
    waiter->thread->result = std::move(result);
    waiter->thread->wake.notify_one();
  } else {
    due.add(std::move(waiter->callback), std::move(result));
  }
  return line.erase(waiter);
}

Error HostPool::no_space(ErrorCode code, std::uint64_t size, Claim claim) const {
  const AllocatorStats now = blocks_.stats();
  return base::error(code, "no space in the pool for ", size, " bytes: ", now.free, " of ", now.size,
                     " bytes are free, the largest free range is ", now.largest_free, ", ",
                     waiters_.size() + spare_waiters_.size(), " wait, ", blocks_.quarantined(),
                     " bytes are quarantined",
                     claim == Claim::spare ? "; half of the pool is kept for what a receiver waits for" : "");
}

PoolStats HostPool::stats() const {
  const std::lock_guard lock(mutex_);
  const AllocatorStats now = blocks_.stats();
  return {now.size,
          now.free,
          now.largest_free,
          now.blocks,
          blocks_.pinned(),
          blocks_.quarantined(),
          waiters_.size() + spare_waiters_.size()};
}

void HostPool::close() {
  DueCallbacks due;
  const std::lock_guard lock(mutex_);
  closed_ = true;
  for (Line* line : {&waiters_, &spare_waiters_}) {
    while (!line->empty()) {
      finish(*line, line->begin(),
             base::error(ErrorCode::closed, "the pool was closed while waiting for space"), due);
    }
  }
}

}  // namespace

Result<std::unique_ptr<Pool>> Pool::create(std::uint64_t size, const HostSlabOptions& options) {
  Result<std::unique_ptr<HostSlab>> slab = HostSlab::create(size, options);
  if (!slab) return slab.error().with_context("memory pool");
  return std::unique_ptr<Pool>(std::make_unique<HostPool>(*std::move(slab)));
}

}  // namespace stagewire::memory
