// Which parts of a pool are in use. Knows offsets only: the memory may be a GPU's.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "stagewire/result.hpp"

namespace stagewire::memory {

struct AllocatorStats {
  std::uint64_t size = 0;
  std::uint64_t free = 0;          ///< bytes, in whole units of the alignment; free + used = size
  std::uint64_t largest_free = 0;  ///< the biggest request that would succeed now
  std::uint64_t blocks = 0;
};

/// Best fit (of equal ones the lowest), O(log n) in the number of free ranges, free neighbours coalesce at
/// once: a request succeeds exactly when one free range is big enough. Takes nothing from the heap once it
/// has seen its largest number of ranges. Needs 4 bytes for each unit of the alignment, as far as the memory
/// is used (0.1 % of a pool). Not thread-safe.
class OffsetAllocator {
 public:
  /// `alignment`: a power of two; blocks begin at multiples of it and take up multiples of it. What is left
  /// of `size` beyond a multiple is not used.
  OffsetAllocator(std::uint64_t size, std::uint64_t alignment);
  OffsetAllocator(const OffsetAllocator&) = delete;
  OffsetAllocator& operator=(const OffsetAllocator&) = delete;

  /// The block's offset, or nullopt when no free range is big enough. Size 0 is refused (a bug).
  std::optional<std::uint64_t> allocate(std::uint64_t size);
  /// `conflict` for an offset that is not an allocated block's start (double free, foreign free, inside of a
  /// block); nothing has changed then.
  Status free(std::uint64_t offset);
  /// The block's size as it was asked for; nullopt when no block starts there.
  std::optional<std::uint64_t> size_of(std::uint64_t offset) const;
  /// A small number that is the block's own until it is freed, to index what its owner knows about it;
  /// nullopt when no block starts there.
  std::optional<std::uint32_t> slot_of(std::uint64_t offset) const;
  /// What the block takes up: its size in whole units of the alignment.
  std::uint64_t aligned(std::uint64_t size) const { return (size + alignment_ - 1) & ~(alignment_ - 1); }
  AllocatorStats stats() const;
  std::uint64_t size() const { return size_; }
  std::uint64_t alignment() const { return alignment_; }

 private:
  struct Range;
  using Index = std::uint32_t;  ///< into ranges_
  static constexpr Index kNone = UINT32_MAX;

  struct SmallerFirst {
    using is_transparent = void;
    const std::vector<Range>* ranges;
    bool operator()(Index a, Index b) const;
    bool operator()(Index a, std::uint64_t size) const;
  };
  using FreeRanges = std::set<Index, SmallerFirst>;

  struct Range {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;   ///< a multiple of the alignment
    std::uint64_t asked = 0;  ///< 0 = free
    Index before = kNone;     ///< neighbours by offset; there are no gaps, and two free ranges never touch
    Index after = kNone;
    FreeRanges::iterator entry;  ///< valid while free
  };
  struct Unmalloc {
    void operator()(void* memory) const { std::free(memory); }
  };

  bool is_free(Index range) const { return range != kNone && ranges_[range].asked == 0; }
  Index new_range_before(Index after);
  void drop_range(Index range);
  void add_free(Index range);
  void remove_free(Index range);
  void resize_free(Index range, std::uint64_t size);
  Error refuse_free(std::uint64_t offset) const;

  const std::uint64_t alignment_;
  const std::uint64_t size_;
  std::uint64_t free_ = 0;
  std::uint64_t blocks_ = 0;
  std::vector<Range> ranges_;
  std::vector<Index> spare_ranges_;
  FreeRanges free_ranges_{SmallerFirst{&ranges_}};
  std::vector<FreeRanges::node_type> spare_entries_;  ///< the set's unused nodes
  std::unique_ptr<Index[], Unmalloc>
      block_at_;  ///< by offset / alignment: 1 + range of the block there, 0 = none
};

}  // namespace stagewire::memory
