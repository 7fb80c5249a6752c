// Which parts of a pool are in use. Knows offsets only: the memory may be a GPU's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "stagewire/result.hpp"

namespace stagewire::memory {

struct AllocatorStats {
  std::uint64_t size = 0;
  std::uint64_t free = 0;
  std::uint64_t largest_free = 0;
  std::uint64_t blocks = 0;
};

/// Best fit, O(log n), neighbours coalesce. Not thread-safe.
class OffsetAllocator {
 public:
  OffsetAllocator(std::uint64_t size, std::uint64_t alignment);

  /// The block's offset, or nullopt when no free range is big enough. size 0 is refused (a bug).
  std::optional<std::uint64_t> allocate(std::uint64_t size);
  /// `conflict` for an offset that is not an allocated block's start (double free, foreign free, inside of a block).
  Status free(std::uint64_t offset);
  /// The block's size as it was asked for; nullopt when no block starts there.
  std::optional<std::uint64_t> size_of(std::uint64_t offset) const;
  AllocatorStats stats() const;
  std::uint64_t alignment() const { return alignment_; }

 private:
  struct Impl;  // whoever writes offset_allocator.cc decides; members below are a suggestion
  std::uint64_t size_;
  std::uint64_t alignment_;
};

}  // namespace stagewire::memory
