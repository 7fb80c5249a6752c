#include "memory/pool.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "support/test_seed.hpp"

namespace stagewire::memory {
namespace {

using base::Deadline;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Offset = Pool::Offset;

constexpr std::uint64_t kUnit = Pool::kAlignment;

const Deadline kNow = Deadline::at(base::TimePoint::min());

std::unique_ptr<Pool> make_pool(std::uint64_t units) {
  auto pool = Pool::create(units * kUnit, {.huge_pages = false});
  EXPECT_TRUE(pool.ok()) << pool.error().to_string();
  return *std::move(pool);
}

Offset take(Pool& pool, std::uint64_t units) {
  auto block = pool.allocate(units * kUnit, kNow);
  EXPECT_TRUE(block.ok()) << block.error().to_string();
  return *block;
}

/// Waits for what another thread does; fails after a time in which it surely would have.
void wait_until_waiting(const Pool& pool, std::uint64_t callers) {
  const Deadline deadline = Deadline::after(std::chrono::seconds(30));
  while (pool.stats().waiting != callers) {
    ASSERT_FALSE(deadline.passed(base::steady_clock().now())) << pool.stats().waiting << " are waiting";
    std::this_thread::yield();
  }
}

TEST(Pool, a_block_lies_in_the_pool_and_in_its_region) {
  const auto pool = make_pool(16);
  const auto block = pool->allocate(100, kNow);
  ASSERT_TRUE(block.ok());
  EXPECT_EQ(*block % kUnit, 0U);
  EXPECT_EQ(pool->size_of(*block), 100U);
  std::memset(pool->bytes().subspan(*block, 100).data(), 1, 100);
  const MemoryRegion region = pool->region();
  EXPECT_EQ(region.data, pool->bytes().data());
  EXPECT_EQ(region.size, 16 * kUnit);
  EXPECT_GE(region.fd, 0);
  EXPECT_EQ(pool->page_kind(), "4 KiB pages");
}

TEST(Pool, a_sent_block_is_free_again_after_it_is_retired) {
  const auto pool = make_pool(4);
  const Offset block = take(*pool, 4);
  pool->publish(block);
  pool->pin(block);
  EXPECT_EQ(pool->stats().pinned, 4 * kUnit);
  pool->unpin(block);
  EXPECT_EQ(pool->stats().pinned, 0U);
  EXPECT_FALSE(pool->retire(block));
  EXPECT_EQ(pool->stats().free, 4 * kUnit);
}

TEST(Pool, R01_a_granted_block_goes_to_quarantine_and_is_not_used_again_until_the_writer_has_stopped) {
  const auto pool = make_pool(4);
  const Offset block = take(*pool, 2);
  pool->grant(block);
  pool->quarantine(block);  // its holder timed out
  EXPECT_EQ(pool->stats().quarantined, 2 * kUnit);
  EXPECT_EQ(pool->stats().free, 2 * kUnit);

  const Offset other = take(*pool, 2);
  EXPECT_NE(other, block);
  const auto none = pool->allocate(1, kNow);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code(), ErrorCode::exhausted);
  EXPECT_THAT(none.error().message(), HasSubstr("8192 bytes are quarantined"));
  pool->expire(base::TimePoint::max());  // no clock frees it

  std::optional<Offset> late;
  pool->allocate_async(2 * kUnit, Deadline::never(), [&](Result<Offset> got) { late = *got; });
  EXPECT_FALSE(late);
  pool->end_quarantine(block);
  EXPECT_EQ(late, block);
  EXPECT_EQ(pool->stats().quarantined, 0U);
}

TEST(Pool, R01_a_grant_that_ended_gives_the_block_back_to_its_holder) {
  const auto pool = make_pool(1);
  const Offset block = take(*pool, 1);
  pool->grant(block);
  pool->end_grant(block);
  pool->grant(block);
  pool->end_grant(block);
  pool->publish(block);
  EXPECT_FALSE(pool->retire(block));
  EXPECT_EQ(pool->stats().blocks, 0U);
}

TEST(Pool, R02_a_retired_block_that_is_read_is_not_used_again_until_the_last_unpin) {
  const auto pool = make_pool(4);
  const Offset block = take(*pool, 4);
  pool->publish(block);
  pool->pin(block);
  pool->pin(block);
  EXPECT_TRUE(pool->retire(block));
  EXPECT_EQ(pool->pins(block), 2U);

  std::optional<Offset> next;
  pool->allocate_async(kUnit, Deadline::never(), [&](Result<Offset> got) { next = *got; });
  pool->unpin(block);
  EXPECT_FALSE(next);
  EXPECT_EQ(pool->stats().pinned, 4 * kUnit);
  EXPECT_EQ(pool->stats().free, 0U);
  pool->unpin(block);
  EXPECT_EQ(next, block);
  EXPECT_EQ(pool->stats().pinned, 0U);
}

using PoolDeathTest = ::testing::Test;

TEST(PoolDeathTest, R01_R02_what_a_state_forbids_is_a_bug_and_aborts_with_offset_and_state) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto pool = make_pool(4);
  take(*pool, 1);
  const Offset block = take(*pool, 1);
  EXPECT_DEATH(pool->pin(block), "block at offset 4096 is staged with 0 pins: no pin");
  EXPECT_DEATH(pool->end_quarantine(block), "no end_quarantine");
  pool->grant(block);
  EXPECT_DEATH(pool->free(block), "is granted with 0 pins: no free");
  EXPECT_DEATH(pool->publish(block), "no publish");
  pool->end_grant(block);
  pool->publish(block);
  EXPECT_DEATH(pool->unpin(block), "no unpin");
  EXPECT_DEATH(pool->grant(block), "no grant");
  pool->pin(block);
  pool->retire(block);
  EXPECT_DEATH(pool->pin(block), "is retired with 1 pins: no pin");
  EXPECT_DEATH(pool->retire(block), "no retire");
  pool->unpin(block);
  EXPECT_DEATH(pool->unpin(block), "no block at offset 4096");
  EXPECT_DEATH(pool->free(1), "no block at offset 1");
  EXPECT_DEATH(pool->free(1ULL << 40), "no block at offset");
}

TEST(Pool, R15_too_large_fails_at_once_with_both_numbers) {
  const auto pool = make_pool(4);
  const auto block = pool->allocate(5 * kUnit, Deadline::never());
  ASSERT_FALSE(block.ok());
  EXPECT_EQ(block.error().code(), ErrorCode::too_large);
  EXPECT_THAT(block.error().message(), HasSubstr("20480"));
  EXPECT_THAT(block.error().message(), HasSubstr("16384"));
  EXPECT_EQ(pool->allocate(0, kNow).error().code(), ErrorCode::invalid_argument);
  EXPECT_EQ(pool->allocate(UINT64_MAX, Deadline::never()).error().code(), ErrorCode::too_large);
}

TEST(Pool, R15_first_come_first_served_with_a_small_request_behind_a_big_one) {
  const auto pool = make_pool(4);
  const Offset first = take(*pool, 1);
  const Offset second = take(*pool, 1);
  std::vector<int> served;
  const auto note = [&](int who) {
    return [&served, who](const Result<Offset>& got) { served.push_back(got.ok() ? who : -who); };
  };
  pool->allocate_async(4 * kUnit, Deadline::never(), note(1));
  pool->allocate_async(kUnit, Deadline::never(), note(2));  // would fit, must not overtake
  EXPECT_TRUE(served.empty());
  EXPECT_EQ(pool->stats().waiting, 2U);
  EXPECT_EQ(pool->allocate(kUnit, kNow).error().code(), ErrorCode::exhausted);
  pool->free(second);
  EXPECT_TRUE(served.empty());
  pool->free(first);
  EXPECT_THAT(served, ElementsAre(1));
  pool->free(0);
  EXPECT_THAT(served, ElementsAre(1, 2));
}

TEST(Pool, R15_a_spare_claim_leaves_half_of_the_pool) {
  const auto pool = make_pool(8);
  ASSERT_TRUE(pool->allocate(4 * kUnit, kNow, Claim::spare).ok());
  const auto refused = pool->allocate(kUnit, kNow, Claim::spare);
  ASSERT_EQ(refused.error().code(), ErrorCode::exhausted);
  EXPECT_THAT(refused.error().message(), HasSubstr("half of the pool is kept"));
  const Offset full = take(*pool, 4);
  pool->free(full);
  // However large: only when it has become a full one.
  std::optional<Result<Offset>> large;
  const auto wait = pool->allocate_async(
      8 * kUnit, Deadline::never(), [&](Result<Offset> got) { large = std::move(got); }, Claim::spare);
  pool->free(0);
  EXPECT_FALSE(large);
  EXPECT_EQ(pool->stats().waiting, 1U);
  pool->make_full(wait);
  ASSERT_TRUE(large && large->ok());
  pool->make_full(wait);
  pool->make_full(0);
}

TEST(Pool, R15_spare_claims_are_served_in_order_and_after_full_ones) {
  const auto pool = make_pool(8);
  const Offset all = take(*pool, 8);
  std::vector<int> served;
  const auto note = [&](int who) {
    return [&served, who](const Result<Offset>& got) { served.push_back(got.ok() ? who : -who); };
  };
  pool->allocate_async(2 * kUnit, Deadline::never(), note(1), Claim::spare);
  const auto second = pool->allocate_async(kUnit, Deadline::never(), note(2), Claim::spare);
  pool->allocate_async(kUnit, Deadline::never(), note(3), Claim::spare);
  pool->allocate_async(kUnit, Deadline::never(), note(4));
  pool->allocate_async(kUnit, Deadline::at(base::TimePoint::max() - std::chrono::hours(1)), note(5),
                       Claim::spare);
  pool->make_full(second);
  EXPECT_EQ(pool->stats().waiting, 5U);
  pool->free(all);
  EXPECT_THAT(served, ElementsAre(4, 2, 1));  // four more would leave less than half
  EXPECT_EQ(pool->stats().waiting, 2U);
  EXPECT_TRUE(pool->expire(base::TimePoint::max() - std::chrono::hours(1)).is_never());
  EXPECT_THAT(served, ElementsAre(4, 2, 1, -5));
  pool->close();
  EXPECT_THAT(served, ElementsAre(4, 2, 1, -5, -3));
}

TEST(Pool, R15_a_wait_ends_at_its_deadline_and_lets_those_behind_go_on) {
  const auto pool = make_pool(4);
  take(*pool, 2);
  const base::TimePoint now = base::steady_clock().now();
  const auto soon = Deadline::at(now + std::chrono::hours(1));
  const auto later = Deadline::at(now + std::chrono::hours(2));
  std::optional<Result<Offset>> big;
  std::optional<Result<Offset>> small;
  std::optional<Result<Offset>> last;
  pool->allocate_async(3 * kUnit, soon, [&](Result<Offset> got) { big = std::move(got); });
  pool->allocate_async(2 * kUnit, later, [&](Result<Offset> got) { small = std::move(got); });
  pool->allocate_async(kUnit, later, [&](Result<Offset> got) { last = std::move(got); });
  EXPECT_EQ(pool->expire(now).when(), soon.when());
  EXPECT_FALSE(big || small || last);

  EXPECT_EQ(pool->expire(soon.when()).when(), later.when());
  ASSERT_TRUE(big && small);
  EXPECT_EQ(big->error().code(), ErrorCode::timeout);
  EXPECT_THAT(big->error().message(), HasSubstr("12288"));
  EXPECT_THAT(big->error().message(), HasSubstr("8192 of 16384 bytes are free"));
  EXPECT_TRUE(small->ok());
  EXPECT_FALSE(last);

  EXPECT_TRUE(pool->expire(later.when()).is_never());
  ASSERT_TRUE(last);
  EXPECT_EQ(last->error().code(), ErrorCode::timeout);
}

TEST(Pool, R15_a_blocked_caller_times_out_and_those_behind_it_go_on) {
  const auto pool = make_pool(2);
  take(*pool, 1);
  std::atomic<bool> timed_out{false};
  std::thread blocked([&] {
    const auto got = pool->allocate(2 * kUnit, Deadline::after(std::chrono::milliseconds(200)));
    timed_out = true;
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.error().code(), ErrorCode::timeout);
  });
  while (pool->stats().waiting == 0 && !timed_out) std::this_thread::yield();
  const auto behind = pool->allocate(kUnit, Deadline::after(std::chrono::minutes(1)));
  EXPECT_TRUE(behind.ok());
  EXPECT_EQ(pool->stats().waiting, 0U);  // it was not served before the one in front had given up
  blocked.join();
}

TEST(Pool, R15_a_blocked_caller_wakes_when_space_is_freed) {
  const auto pool = make_pool(2);
  const Offset block = take(*pool, 2);
  std::thread blocked([&] {
    const auto got = pool->allocate(2 * kUnit, Deadline::never());
    ASSERT_TRUE(got.ok());
    pool->free(*got);
  });
  wait_until_waiting(*pool, 1);
  pool->free(block);
  blocked.join();
  EXPECT_EQ(pool->stats().free, 2 * kUnit);
}

TEST(Pool, R15_contending_threads_all_get_their_turn_and_every_byte_returns) {
  const auto pool = make_pool(8);
  constexpr int kThreads = 4;
  constexpr int kRounds = 500;
  std::atomic<int> served{0};
  std::vector<std::thread> threads;
  for (int who = 0; who < kThreads; ++who) {
    threads.emplace_back([&, who] {
      std::mt19937 random(static_cast<unsigned>(who));
      for (int round = 0; round < kRounds; ++round) {
        const std::uint64_t size = (1 + random() % 8) * kUnit;
        const auto block = pool->allocate(size, Deadline::after(std::chrono::seconds(60)));
        ASSERT_TRUE(block.ok()) << block.error().to_string();
        const auto bytes = pool->bytes().subspan(*block, size);
        const auto mark = std::byte{static_cast<unsigned char>(who + 1)};
        bytes.front() = bytes.back() = mark;
        std::this_thread::yield();
        ASSERT_EQ(bytes.front(), mark);  // nobody else has the block
        ASSERT_EQ(bytes.back(), mark);
        pool->free(*block);
        ++served;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(served, kThreads * kRounds);
  EXPECT_EQ(pool->stats().free, 8 * kUnit);
  EXPECT_EQ(pool->stats().largest_free, 8 * kUnit);
  EXPECT_EQ(pool->stats().waiting, 0U);
}

TEST(Pool, R15_free_bytes_return_to_their_start_value_after_a_random_run) {
  std::mt19937_64 random(test::test_seed());
  const auto pool = make_pool(64);
  struct Held {
    Offset block;
    int path;  // 0 free, 1 publish and read, 2 grant and end, 3 quarantine
  };
  std::deque<Held> held;
  std::uint64_t asked = 0;
  std::uint64_t answered = 0;
  std::vector<Pool::WaitId> waits;
  const auto finish = [&](const Held& one) {
    if (one.path == 1) {
      pool->publish(one.block);
      pool->pin(one.block);
      EXPECT_TRUE(pool->retire(one.block));
      pool->unpin(one.block);
    } else if (one.path == 2) {
      pool->grant(one.block);
      pool->end_grant(one.block);
      pool->free(one.block);
    } else if (one.path == 3) {
      pool->grant(one.block);
      pool->quarantine(one.block);
      pool->end_quarantine(one.block);
    } else {
      pool->free(one.block);
    }
  };
  for (int step = 0; step < 20'000; ++step) {
    if (random() % 2 == 0) {
      ++asked;
      const auto granted = [&](Result<Offset> got) {
        ++answered;
        ASSERT_TRUE(got.ok());
        held.push_back({*got, static_cast<int>(random() % 4)});
      };
      const Claim claim = random() % 2 == 0 ? Claim::full : Claim::spare;
      waits.push_back(pool->allocate_async(1 + random() % (16 * kUnit), Deadline::never(), granted, claim));
      if (random() % 4 == 0) pool->make_full(waits[random() % waits.size()]);
    } else if (!held.empty()) {
      const Held one = held.front();
      held.pop_front();
      finish(one);
    }
    const PoolStats stats = pool->stats();
    ASSERT_EQ(stats.blocks, held.size()) << "step " << step;
    ASSERT_EQ(stats.waiting, asked - answered) << "step " << step;
  }
  while (!held.empty()) {
    const Held one = held.front();
    held.pop_front();
    finish(one);
  }
  const PoolStats stats = pool->stats();
  EXPECT_EQ(answered, asked);
  EXPECT_EQ(stats.free, 64 * kUnit);
  EXPECT_EQ(stats.largest_free, 64 * kUnit);
  EXPECT_EQ(stats.blocks + stats.pinned + stats.quarantined + stats.waiting, 0U);
}

TEST(Pool, a_callback_may_use_the_pool) {
  const auto pool = make_pool(2);
  const Offset block = take(*pool, 2);
  std::vector<std::uint64_t> free_bytes;
  for (int i = 0; i < 3; ++i) {
    pool->allocate_async(2 * kUnit, Deadline::never(), [&](Result<Offset> got) {
      free_bytes.push_back(pool->stats().free);
      pool->free(*got);  // serves the next
    });
  }
  pool->free(block);
  EXPECT_THAT(free_bytes, ElementsAre(0, 0, 0));
  EXPECT_EQ(pool->stats().free, 2 * kUnit);
}

TEST(Pool, close_fails_those_who_wait_and_keeps_blocks) {
  const auto pool = make_pool(2);
  const Offset block = take(*pool, 2);
  std::thread blocked([&] {
    const auto got = pool->allocate(kUnit, Deadline::never());
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.error().code(), ErrorCode::closed);
  });
  wait_until_waiting(*pool, 1);
  std::optional<Result<Offset>> async;
  pool->allocate_async(kUnit, Deadline::never(), [&](Result<Offset> got) { async = std::move(got); });
  pool->close();
  blocked.join();
  ASSERT_TRUE(async);
  EXPECT_EQ(async->error().code(), ErrorCode::closed);
  EXPECT_EQ(pool->allocate(kUnit, kNow).error().code(), ErrorCode::closed);
  EXPECT_EQ(pool->bytes()[block], std::byte{0});
  pool->free(block);
  pool->close();
  EXPECT_EQ(pool->stats().free, 2 * kUnit);
}

TEST(Pool, R19_works_beyond_4_GiB) {
  constexpr std::uint64_t kGiB = 1ULL << 30;
  auto made = Pool::create(9 * kGiB, {.huge_pages = false, .prefault = false});
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  const auto pool = *std::move(made);
  const auto big = pool->allocate(5 * kGiB, kNow);
  const auto small = pool->allocate(kUnit, kNow);
  ASSERT_TRUE(big.ok() && small.ok());
  EXPECT_EQ(*small, 5 * kGiB);
  pool->bytes()[*big + 5 * kGiB - 1] = std::byte{1};
  pool->bytes()[*small] = std::byte{2};
  EXPECT_EQ(pool->bytes()[*big + 5 * kGiB - 1], std::byte{1});
  EXPECT_EQ(pool->allocate(5 * kGiB, kNow).error().code(), ErrorCode::exhausted);
  EXPECT_EQ(pool->allocate(9 * kGiB + 1, kNow).error().code(), ErrorCode::too_large);
}

TEST(Pool, R24_a_pool_the_machine_cannot_hold_is_refused_with_context) {
  const auto pool = Pool::create(1ULL << 46);
  ASSERT_FALSE(pool.ok());
  EXPECT_THAT(pool.error().message(), HasSubstr("memory pool: 64 TiB"));
}

}  // namespace
}  // namespace stagewire::memory
