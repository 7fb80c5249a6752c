#include "memory/block_table.hpp"

#include "base/check.hpp"
#include "base/text.hpp"

namespace stagewire::memory {

std::optional<std::uint64_t> BlockTable::allocate(std::uint64_t size) {
  const std::optional<std::uint64_t> block = allocator_.allocate(size);
  if (!block) return std::nullopt;
  const std::uint32_t slot = checked_slot(*block);
  if (slot >= statuses_.size()) statuses_.resize(slot + std::size_t{1});
  statuses_[slot] = *next_status({}, BlockEvent::allocate);
  return block;
}

BlockState BlockTable::apply(std::uint64_t block, BlockEvent event) {
  BlockStatus& status = statuses_[checked_slot(block)];
  const std::optional<BlockStatus> next = next_status(status, event);
  STAGEWIRE_CHECK(next.has_value(), base::text("block at offset ", block, " is ", to_string(status.state),
                                               " with ", status.pins, " pins: no ", to_string(event))
                                        .c_str());
  const std::uint64_t size = allocator_.aligned(size_of(block));
  if (status.pins == 0 && next->pins > 0) pinned_ += size;
  if (status.pins > 0 && next->pins == 0) pinned_ -= size;
  if (next->state == BlockState::quarantined) quarantined_ += size;
  if (status.state == BlockState::quarantined) quarantined_ -= size;
  status = *next;
  if (next->state == BlockState::free) {
    const Status freed = allocator_.free(block);
    STAGEWIRE_CHECK(freed.ok(), freed.error().message().c_str());
  }
  return next->state;
}

std::uint64_t BlockTable::size_of(std::uint64_t block) const {
  const std::optional<std::uint64_t> size = allocator_.size_of(block);
  STAGEWIRE_CHECK(size.has_value(), base::text("no block at offset ", block).c_str());
  return *size;
}

BlockStatus BlockTable::status_of(std::uint64_t block) const {
  return statuses_[checked_slot(block)];
}

std::uint32_t BlockTable::checked_slot(std::uint64_t block) const {
  const std::optional<std::uint32_t> slot = allocator_.slot_of(block);
  STAGEWIRE_CHECK(slot.has_value(), base::text("no block at offset ", block).c_str());
  return *slot;
}

}  // namespace stagewire::memory
