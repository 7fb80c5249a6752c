#include "memory/offset_allocator.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "support/test_seed.hpp"

namespace stagewire::memory {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kUnit = 4096;

TEST(OffsetAllocator, blocks_are_aligned_and_keep_the_size_asked_for) {
  OffsetAllocator allocator(16 * kUnit, kUnit);
  const auto first = allocator.allocate(1);
  const auto second = allocator.allocate(kUnit + 1);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(*first % kUnit, 0U);
  EXPECT_EQ(*second % kUnit, 0U);
  EXPECT_EQ(allocator.size_of(*first), 1U);
  EXPECT_EQ(allocator.size_of(*second), kUnit + 1);
  EXPECT_EQ(allocator.stats().free, 13 * kUnit);
  EXPECT_EQ(allocator.stats().blocks, 2U);
}

TEST(OffsetAllocator, the_whole_can_be_one_block_and_a_byte_more_cannot) {
  OffsetAllocator allocator(16 * kUnit + 5, kUnit);
  EXPECT_EQ(allocator.size(), 16 * kUnit);
  EXPECT_FALSE(allocator.allocate(16 * kUnit + 1));
  EXPECT_FALSE(allocator.allocate(UINT64_MAX));
  ASSERT_EQ(allocator.allocate(16 * kUnit), 0U);
  EXPECT_FALSE(allocator.allocate(1));
  EXPECT_EQ(allocator.stats().largest_free, 0U);
}

TEST(OffsetAllocator, nothing_fits_an_empty_one) {
  OffsetAllocator allocator(0, kUnit);
  EXPECT_FALSE(allocator.allocate(1));
  EXPECT_FALSE(allocator.free(0).ok());
}

TEST(OffsetAllocator, the_smallest_range_that_fits_is_taken) {
  OffsetAllocator allocator(100 * kUnit, kUnit);
  std::vector<std::uint64_t> blocks;
  for (const std::uint64_t units : {8U, 1U, 3U, 1U, 5U, 1U})
    blocks.push_back(*allocator.allocate(units * kUnit));
  for (const std::size_t hole : {0U, 2U, 4U}) ASSERT_TRUE(allocator.free(blocks[hole]).ok());
  EXPECT_EQ(allocator.allocate(2 * kUnit), blocks[2]);
  EXPECT_EQ(allocator.allocate(5 * kUnit), blocks[4]);
  EXPECT_EQ(allocator.allocate(6 * kUnit), blocks[0]);
}

TEST(OffsetAllocator, neighbours_coalesce_in_every_order) {
  std::vector<std::size_t> order = {0, 1, 2};
  do {
    OffsetAllocator allocator(3 * kUnit, kUnit);
    std::vector<std::uint64_t> blocks;
    for (int i = 0; i < 3; ++i) blocks.push_back(*allocator.allocate(kUnit));
    for (const std::size_t i : order) ASSERT_TRUE(allocator.free(blocks[i]).ok());
    EXPECT_EQ(allocator.stats().largest_free, 3 * kUnit);
    EXPECT_EQ(allocator.allocate(3 * kUnit), 0U);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(OffsetAllocator, a_wrong_free_is_refused_with_the_reason_and_changes_nothing) {
  OffsetAllocator allocator(16 * kUnit, kUnit);
  const auto block = *allocator.allocate(3 * kUnit);
  const auto other = *allocator.allocate(kUnit);
  const auto refusal = [&](std::uint64_t offset) {
    const Status status = allocator.free(offset);
    EXPECT_FALSE(status.ok()) << offset;
    EXPECT_EQ(status.error().code(), ErrorCode::conflict);
    return status.error().message();
  };
  EXPECT_THAT(refusal(block + kUnit), HasSubstr("inside the block of 12288 bytes at offset 0"));
  EXPECT_THAT(refusal(block + 1), HasSubstr("inside the block of 12288 bytes at offset 0"));
  EXPECT_THAT(refusal(10 * kUnit), HasSubstr("free already"));
  EXPECT_THAT(refusal(16 * kUnit), HasSubstr("beyond the pool of 65536 bytes"));
  EXPECT_THAT(refusal(UINT64_MAX), HasSubstr("beyond"));
  EXPECT_EQ(allocator.stats().free, 12 * kUnit);

  ASSERT_TRUE(allocator.free(block).ok());
  EXPECT_THAT(refusal(block), HasSubstr("free already"));
  ASSERT_TRUE(allocator.free(other).ok());
  EXPECT_THAT(refusal(other), HasSubstr("free already"));  // its range has become part of a bigger one
  EXPECT_EQ(allocator.stats().largest_free, 16 * kUnit);
}

TEST(OffsetAllocator, slots_are_unique_while_blocks_live_and_are_used_again) {
  OffsetAllocator allocator(64 * kUnit, kUnit);
  std::vector<std::uint32_t> slots;
  for (int i = 0; i < 64; ++i) slots.push_back(*allocator.slot_of(*allocator.allocate(1)));
  std::sort(slots.begin(), slots.end());
  EXPECT_EQ(std::unique(slots.begin(), slots.end()), slots.end());
  for (std::uint64_t offset = 0; offset < 64 * kUnit; offset += kUnit)
    ASSERT_TRUE(allocator.free(offset).ok());
  EXPECT_FALSE(allocator.slot_of(0));
  for (int i = 0; i < 64; ++i) EXPECT_LE(*allocator.slot_of(*allocator.allocate(1)), slots.back());
}

TEST(OffsetAllocator, R19_offsets_beyond_4_GiB) {
  constexpr std::uint64_t kGiB = 1ULL << 30;
  OffsetAllocator allocator(40 * kGiB, kUnit);
  const auto first = *allocator.allocate(5 * kGiB);
  const auto second = *allocator.allocate(17 * kGiB + 1);
  EXPECT_EQ(second - first, 5 * kGiB);
  EXPECT_EQ(allocator.stats().free, 18 * kGiB - kUnit);
  EXPECT_EQ(allocator.size_of(second), 17 * kGiB + 1);
  ASSERT_TRUE(allocator.free(first).ok());
  ASSERT_TRUE(allocator.free(second).ok());
  EXPECT_EQ(allocator.stats().largest_free, 40 * kGiB);
}

/// Free ranges as a plain list; slow and obvious.
class Model {
 public:
  explicit Model(std::uint64_t size) : free_{{0, size}} {}
  std::optional<std::uint64_t> allocate(std::uint64_t size) {
    const std::uint64_t taken = (size + kUnit - 1) / kUnit * kUnit;
    auto best = free_.end();
    for (auto at = free_.begin(); at != free_.end(); ++at) {
      if (at->second >= taken && (best == free_.end() || at->second < best->second)) best = at;
    }
    if (best == free_.end()) return std::nullopt;
    const auto [offset, space] = *best;
    free_.erase(best);
    if (space > taken) free_[offset + taken] = space - taken;
    used_[offset] = taken;
    return offset;
  }
  void free(std::uint64_t offset) {
    free_[offset] = used_.at(offset);
    used_.erase(offset);
    for (auto at = free_.begin(); at != free_.end();) {
      const auto next = std::next(at);
      if (next != free_.end() && at->first + at->second == next->first) {
        at->second += next->second;
        free_.erase(next);
      } else {
        at = next;
      }
    }
  }
  std::uint64_t free_bytes() const {
    std::uint64_t sum = 0;
    for (const auto& [offset, size] : free_) sum += size;
    return sum;
  }
  std::uint64_t largest() const {
    std::uint64_t most = 0;
    for (const auto& [offset, size] : free_) most = std::max(most, size);
    return most;
  }
  const std::map<std::uint64_t, std::uint64_t>& used() const { return used_; }

 private:
  std::map<std::uint64_t, std::uint64_t> free_;
  std::map<std::uint64_t, std::uint64_t> used_;
};

TEST(OffsetAllocator, random_use_agrees_with_a_model_and_returns_every_byte) {
  std::mt19937_64 random(test::test_seed());
  constexpr std::uint64_t kSize = 512 * kUnit;
  OffsetAllocator allocator(kSize, kUnit);
  Model model(kSize);
  for (int step = 0; step < 20'000; ++step) {
    const bool grow = random() % 3 != 0 || model.used().empty();
    if (grow) {
      const std::uint64_t most = random() % 8 == 0 ? kSize : 12 * kUnit;
      const std::uint64_t size = 1 + random() % most;
      ASSERT_EQ(allocator.allocate(size), model.allocate(size)) << "step " << step;
    } else {
      const std::uint64_t block =
          std::next(model.used().begin(), static_cast<std::ptrdiff_t>(random() % model.used().size()))->first;
      model.free(block);
      ASSERT_TRUE(allocator.free(block).ok()) << "step " << step;
    }
    ASSERT_EQ(allocator.stats().free, model.free_bytes()) << "step " << step;
    ASSERT_EQ(allocator.stats().largest_free, model.largest()) << "step " << step;
    ASSERT_EQ(allocator.stats().blocks, model.used().size()) << "step " << step;
    const std::uint64_t anywhere = random() % 512 * kUnit;
    if (!model.used().contains(anywhere)) {
      ASSERT_FALSE(allocator.free(anywhere).ok()) << "step " << step;
    }
  }
  while (!model.used().empty()) {
    const std::uint64_t block = model.used().begin()->first;
    model.free(block);
    ASSERT_TRUE(allocator.free(block).ok());
  }
  EXPECT_EQ(allocator.stats().free, kSize);
  EXPECT_EQ(allocator.stats().largest_free, kSize);
}

}  // namespace
}  // namespace stagewire::memory
