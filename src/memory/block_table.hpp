// Where the blocks of a pool lie and which state each is in: the allocator and the state table joined, with
// sums.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "memory/block_state.hpp"
#include "memory/offset_allocator.hpp"

namespace stagewire::memory {

/// Aborts on an offset that names no block and on an illegal event, with offset, state and event. Not
/// thread-safe.
class BlockTable {
 public:
  BlockTable(std::uint64_t size, std::uint64_t alignment) : allocator_(size, alignment) {}

  /// A staged block's offset, or nullopt when no free range is big enough.
  std::optional<std::uint64_t> allocate(std::uint64_t size);
  /// Returns what the block has become; `free`: it is gone, and its space can be had.
  BlockState apply(std::uint64_t block, BlockEvent event);

  std::uint64_t size_of(std::uint64_t block) const;
  BlockStatus status_of(std::uint64_t block) const;
  AllocatorStats stats() const { return allocator_.stats(); }
  std::uint64_t size() const { return allocator_.size(); }
  std::uint64_t pinned() const { return pinned_; }
  std::uint64_t quarantined() const { return quarantined_; }

 private:
  std::uint32_t checked_slot(std::uint64_t block) const;

  OffsetAllocator allocator_;
  std::vector<BlockStatus> statuses_;  ///< by slot
  std::uint64_t pinned_ = 0;
  std::uint64_t quarantined_ = 0;
};

}  // namespace stagewire::memory
