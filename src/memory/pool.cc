#include "memory/pool.hpp"

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

/// Who waits for space, in order of arrival. Either a thread or a callback.
struct Waiter {
  std::uint64_t size;
  base::Deadline deadline;
  BlockedThread* thread;
  Pool::Allocated callback;
};

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

  Result<Offset> allocate(std::uint64_t size, base::Deadline deadline) override;
  void allocate_async(std::uint64_t size, base::Deadline deadline, Allocated callback) override;
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
  std::optional<Result<Offset>> try_allocate(std::uint64_t size, base::Deadline deadline);
  std::list<Waiter>::iterator finish(std::list<Waiter>::iterator waiter, Result<Offset> result,
                                     DueCallbacks& due);
  void serve_waiters(DueCallbacks& due);
  Error no_space(ErrorCode code, std::uint64_t size) const;

  const std::unique_ptr<HostSlab> slab_;
  mutable std::mutex mutex_;
  BlockTable blocks_;
  std::list<Waiter> waiters_;
  bool closed_ = false;
};

Result<Offset> HostPool::allocate(std::uint64_t size, base::Deadline deadline) {
  DueCallbacks due;
  std::unique_lock lock(mutex_);
  if (auto result = try_allocate(size, deadline)) return *std::move(result);

  BlockedThread self;
  const auto waiter = waiters_.insert(waiters_.end(), {size, deadline, &self, {}});
  while (!self.result) {
    if (deadline.is_never()) {
      self.wake.wait(lock);
    } else if (self.wake.wait_until(lock, deadline.when()) == std::cv_status::timeout && !self.result) {
      finish(waiter, no_space(ErrorCode::timeout, size), due);
      serve_waiters(due);  // those behind may fit
    }
  }
  return *std::move(self.result);
}

void HostPool::allocate_async(std::uint64_t size, base::Deadline deadline, Allocated callback) {
  DueCallbacks due;
  const std::lock_guard lock(mutex_);
  if (auto result = try_allocate(size, deadline)) {
    due.add(std::move(callback), *std::move(result));
  } else {
    waiters_.push_back({size, deadline, nullptr, std::move(callback)});
  }
}

/// nullopt: the caller has to wait.
std::optional<Result<Offset>> HostPool::try_allocate(std::uint64_t size, base::Deadline deadline) {
  if (closed_) return base::error(ErrorCode::closed, "the pool is closed");
  if (size == 0) return base::error(ErrorCode::invalid_argument, "a block of 0 bytes asked for");
  if (size > blocks_.size()) {
    return base::error(ErrorCode::too_large, "a block of ", size, " bytes can never fit the pool of ",
                       blocks_.size(), " bytes: raise memory_pool_size");
  }
  if (waiters_.empty()) {
    if (const auto block = blocks_.allocate(size)) return Result<Offset>(*block);
  }
  if (deadline.passed(base::steady_clock().now())) return no_space(ErrorCode::exhausted, size);
  return std::nullopt;
}

base::Deadline HostPool::expire(base::TimePoint now) {
  DueCallbacks due;
  const std::lock_guard lock(mutex_);
  for (auto waiter = waiters_.begin(); waiter != waiters_.end();) {
    waiter = waiter->deadline.passed(now) ? finish(waiter, no_space(ErrorCode::timeout, waiter->size), due)
                                          : std::next(waiter);
  }
  serve_waiters(due);
  base::Deadline next = base::Deadline::never();
  for (const Waiter& waiter : waiters_) {
    if (waiter.deadline.when() < next.when()) next = waiter.deadline;
  }
  return next;
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
  while (!waiters_.empty()) {
    const auto block = blocks_.allocate(waiters_.front().size);
    if (!block) return;
    finish(waiters_.begin(), *block, due);
  }
}

std::list<Waiter>::iterator HostPool::finish(std::list<Waiter>::iterator waiter, Result<Offset> result,
                                             DueCallbacks& due) {
  if (waiter->thread != nullptr) {
    waiter->thread->result = std::move(result);
    waiter->thread->wake.notify_one();
  } else {
    due.add(std::move(waiter->callback), std::move(result));
  }
  return waiters_.erase(waiter);
}

Error HostPool::no_space(ErrorCode code, std::uint64_t size) const {
  const AllocatorStats now = blocks_.stats();
  return base::error(code, "no space in the pool for ", size, " bytes: ", now.free, " of ", now.size,
                     " bytes are free, the largest free range is ", now.largest_free, ", ", waiters_.size(),
                     " wait, ", blocks_.quarantined(), " bytes are quarantined");
}

PoolStats HostPool::stats() const {
  const std::lock_guard lock(mutex_);
  const AllocatorStats now = blocks_.stats();
  return {now.size,       now.free, now.largest_free, now.blocks, blocks_.pinned(), blocks_.quarantined(),
          waiters_.size()};
}

void HostPool::close() {
  DueCallbacks due;
  const std::lock_guard lock(mutex_);
  closed_ = true;
  while (!waiters_.empty()) {
    finish(waiters_.begin(), base::error(ErrorCode::closed, "the pool was closed while waiting for space"),
           due);
  }
}

}  // namespace

Result<std::unique_ptr<Pool>> Pool::create(std::uint64_t size, const HostSlabOptions& options) {
  Result<std::unique_ptr<HostSlab>> slab = HostSlab::create(size, options);
  if (!slab) return slab.error().with_context("memory pool");
  return std::unique_ptr<Pool>(std::make_unique<HostPool>(*std::move(slab)));
}

}  // namespace stagewire::memory
