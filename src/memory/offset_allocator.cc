#include "memory/offset_allocator.hpp"

#include <bit>
#include <iterator>
#include <utility>

#include "base/check.hpp"
#include "base/text.hpp"

namespace stagewire::memory {

bool OffsetAllocator::SmallerFirst::operator()(Index a, Index b) const {
  const Range& left = (*ranges)[a];
  const Range& right = (*ranges)[b];
  return left.size != right.size ? left.size < right.size : left.offset < right.offset;
}

bool OffsetAllocator::SmallerFirst::operator()(Index a, std::uint64_t size) const {
  return (*ranges)[a].size < size;
}

OffsetAllocator::OffsetAllocator(std::uint64_t size, std::uint64_t alignment)
    : alignment_(alignment), size_(size - size % alignment) {
  STAGEWIRE_CHECK(std::has_single_bit(alignment), "alignment is a power of two");
  // calloc and not a vector: memory that is never used costs no page of it.
  block_at_.reset(static_cast<Index*>(std::calloc(size_ / alignment_ + 1, sizeof(Index))));
  STAGEWIRE_CHECK(block_at_ != nullptr, "memory for the allocator's index");
  if (size_ == 0) return;
  const Index all = new_range_before(kNone);
  ranges_[all].size = size_;
  free_ = size_;
  add_free(all);
}

std::optional<std::uint64_t> OffsetAllocator::allocate(std::uint64_t size) {
  STAGEWIRE_CHECK(size > 0, "a block has at least one byte");
  if (size > free_) return std::nullopt;
  const std::uint64_t taken = aligned(size);
  const auto best = free_ranges_.lower_bound(taken);
  if (best == free_ranges_.end()) return std::nullopt;

  Index block = *best;
  const std::uint64_t offset = ranges_[block].offset;
  if (ranges_[block].size == taken) {
    remove_free(block);
  } else {
    const Index rest = block;
    block = new_range_before(rest);
    ranges_[block].offset = offset;
    ranges_[block].size = taken;
    ranges_[rest].offset += taken;
    resize_free(rest, ranges_[rest].size - taken);
  }
  ranges_[block].asked = size;
  block_at_[offset / alignment_] = block + 1;
  free_ -= taken;
  ++blocks_;
  return offset;
}

Status OffsetAllocator::free(std::uint64_t offset) {
  const std::optional<Index> found = slot_of(offset);
  if (!found) return refuse_free(offset);
  const Index block = *found;
  const Index before = ranges_[block].before;
  const Index after = ranges_[block].after;
  block_at_[offset / alignment_] = 0;
  free_ += ranges_[block].size;
  --blocks_;

  std::uint64_t size = ranges_[block].size;
  if (is_free(before) && is_free(after)) {
    size += ranges_[after].size;
    remove_free(after);
    drop_range(after);
  }
  if (is_free(before)) {
    drop_range(block);
    resize_free(before, ranges_[before].size + size);
  } else if (is_free(after)) {
    drop_range(block);
    ranges_[after].offset = offset;
    resize_free(after, ranges_[after].size + size);
  } else {
    ranges_[block].asked = 0;
    add_free(block);
  }
  return {};
}

std::optional<std::uint32_t> OffsetAllocator::slot_of(std::uint64_t offset) const {
  if (offset >= size_ || offset % alignment_ != 0) return std::nullopt;
  const Index entry = block_at_[offset / alignment_];
  return entry == 0 ? std::nullopt : std::optional(entry - 1);
}

std::optional<std::uint64_t> OffsetAllocator::size_of(std::uint64_t offset) const {
  const std::optional<Index> block = slot_of(offset);
  return block ? std::optional(ranges_[*block].asked) : std::nullopt;
}

AllocatorStats OffsetAllocator::stats() const {
  const std::uint64_t largest = free_ranges_.empty() ? 0 : ranges_[*free_ranges_.rbegin()].size;
  return {size_, free_, largest, blocks_};
}

/// An empty range in front of `after`, for its caller to fill in.
OffsetAllocator::Index OffsetAllocator::new_range_before(Index after) {
  Index range = static_cast<Index>(ranges_.size());
  if (spare_ranges_.empty()) {
    STAGEWIRE_CHECK(range != kNone, "fewer than 2^32 - 1 ranges");
    ranges_.emplace_back();
  } else {
    range = spare_ranges_.back();
    spare_ranges_.pop_back();
    ranges_[range] = Range{};
  }
  const Index before = after == kNone ? kNone : ranges_[after].before;
  ranges_[range].before = before;
  ranges_[range].after = after;
  if (before != kNone) ranges_[before].after = range;
  if (after != kNone) ranges_[after].before = range;
  return range;
}

void OffsetAllocator::drop_range(Index range) {
  const auto [before, after] = std::pair(ranges_[range].before, ranges_[range].after);
  if (before != kNone) ranges_[before].after = after;
  if (after != kNone) ranges_[after].before = before;
  spare_ranges_.push_back(range);
}

void OffsetAllocator::add_free(Index range) {
  if (spare_entries_.empty()) {
    ranges_[range].entry = free_ranges_.insert(range).first;
    return;
  }
  FreeRanges::node_type node = std::move(spare_entries_.back());
  spare_entries_.pop_back();
  node.value() = range;
  ranges_[range].entry = free_ranges_.insert(std::move(node)).position;
}

void OffsetAllocator::remove_free(Index range) {
  spare_entries_.push_back(free_ranges_.extract(ranges_[range].entry));
}

/// Most changes do not alter a range's rank by size, and then nothing has to move.
void OffsetAllocator::resize_free(Index range, std::uint64_t size) {
  const FreeRanges::iterator entry = ranges_[range].entry;
  const auto next = std::next(entry);
  const bool keeps_rank = (entry == free_ranges_.begin() || ranges_[*std::prev(entry)].size < size) &&
                          (next == free_ranges_.end() || ranges_[*next].size > size);
  if (keeps_rank) {
    ranges_[range].size = size;
    return;
  }
  remove_free(range);
  ranges_[range].size = size;
  add_free(range);
}

Error OffsetAllocator::refuse_free(std::uint64_t offset) const {
  if (offset >= size_) {
    return base::error(ErrorCode::conflict, "free of offset ", offset, ": beyond the pool of ", size_,
                       " bytes");
  }
  for (std::uint64_t unit = offset / alignment_ + 1; unit-- > 0;) {
    if (block_at_[unit] == 0) continue;
    const Range& block = ranges_[block_at_[unit] - 1];
    if (offset - block.offset >= block.size) break;
    return base::error(ErrorCode::conflict, "free of offset ", offset, ": it lies inside the block of ",
                       block.asked, " bytes at offset ", block.offset);
  }
  return base::error(ErrorCode::conflict, "free of offset ", offset, ": it is free already");
}

}  // namespace stagewire::memory
