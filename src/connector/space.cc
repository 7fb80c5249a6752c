#include "connector/space.hpp"

#include <memory>
#include <optional>

namespace stagewire::connector {
namespace {

struct SpaceWait {
  base::Event event;
  std::optional<Result<memory::Pool::Offset>> result;
};

bool should_wait(const Result<memory::Pool::Offset>& result, base::Deadline deadline) {
  return !result && result.error().code() == ErrorCode::exhausted &&
         !deadline.passed(base::steady_clock().now());
}

}  // namespace

Result<memory::Pool::Offset> allocate_block(engine::Core& core, memory::Pool& pool, std::uint64_t size,
                                            base::Deadline deadline, memory::Claim claim) {
  const base::Deadline at_once = base::Deadline::at(base::TimePoint::min());
  auto block = pool.allocate(size, at_once, claim);
  if (block) return block;
  // What would make room may have arrived already.
  core.poll_messages();
  block = pool.allocate(size, at_once, claim);
  if (!should_wait(block, deadline)) return block;

  const auto waiting = std::make_shared<SpaceWait>();
  pool.allocate_async(
      size, deadline,
      [waiting](Result<memory::Pool::Offset> result) {
        waiting->result.emplace(std::move(result));
        waiting->event.set();
      },
      claim);
  core.want_everything(true);
  // The pool answers when it has been told that the deadline has passed, so the second wait is short.
  if (!core.wait(waiting->event, deadline)) pool.expire(base::steady_clock().now());
  core.wait(waiting->event, base::Deadline::never());
  core.want_everything(false);
  return std::move(*waiting->result);
}

}  // namespace stagewire::connector
