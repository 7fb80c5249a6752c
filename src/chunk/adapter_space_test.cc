// A pool that is full: chunks wait for space in turn, and nobody else waits for them.
#include <gtest/gtest.h>

#include "chunk/chunk_fixture.hpp"

namespace stagewire::chunk {
namespace {

constexpr std::size_t kLarge = 300'000;

/// Saves chunks of `id` until one waits for space; returns how many were saved.
std::uint64_t fill_pool(StagePair& pair, const std::string& id) {
  std::uint64_t saved = 0;
  while (pair.source->counters().waiting_for_space == 0) {
    EXPECT_TRUE(pair.save(id, pattern(kLarge, saved++)).ok());
    EXPECT_TRUE(eventually([&] {
      const ChunkCounters now = pair.source->counters();
      return now.queued == 0 || now.waiting_for_space > 0;
    }));
  }
  return saved;
}

TEST(ChunkSpace, chunks_wait_for_space_and_arrive_in_order) {
  StagePair pair({.pool_size = 1 << 20});
  std::uint64_t saved = fill_pool(pair, "r");
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(pair.save("r", pattern(kLarge, saved++)).ok());
  ASSERT_TRUE(pair.save_end("r").ok());
  for (std::uint64_t i = 0; i < saved; ++i) {
    ASSERT_TRUE(pair.load("r").ok());
    const ChunkEvent event = pair.next_received();
    ASSERT_TRUE(event.chunk.ok()) << event.chunk.error().to_string();
    ASSERT_EQ(bytes_of(*event.chunk), pattern(kLarge, i));
  }
  ASSERT_TRUE(pair.load("r").ok());
  EXPECT_TRUE(pair.next_received().chunk->finished);
  EXPECT_EQ(pair.source->counters().send_errors, 0U);
  pair.expect_all_returned();
}

TEST(ChunkSpace, R06_one_that_waits_for_space_delays_nobody_whose_chunk_is_eager) {
  StagePair pair({.pool_size = 1 << 20});
  ASSERT_TRUE(pair.load("small").ok());
  ASSERT_TRUE(pair.save("small", pattern(100, 0)).ok());
  ASSERT_TRUE(pair.next_received().chunk.ok());
  fill_pool(pair, "large");
  for (std::uint64_t i = 1; i < 50; ++i) {
    ASSERT_TRUE(pair.load("small").ok());
    // Watched, so that it goes in the message.
    EXPECT_TRUE(eventually([&] { return pair.sender->health().watched > 0; }));
    ASSERT_TRUE(pair.save("small", pattern(100, i)).ok());
    const ChunkEvent event = pair.next_received();
    ASSERT_TRUE(event.chunk.ok());
    ASSERT_EQ(bytes_of(*event.chunk), pattern(100, i));
  }
  EXPECT_EQ(pair.source->counters().waiting_for_space, 1U);
}

TEST(ChunkSpace, R05_what_finds_no_space_in_time_is_an_error_at_both_ends) {
  ChunkAdapterOptions options;
  options.space_timeout = ms(50);
  StagePair pair({.pool_size = 1 << 20}, options);
  const std::uint64_t saved = fill_pool(pair, "r");
  const ChunkEvent failure = pair.next_of_source();
  EXPECT_EQ(failure.internal_id, "r");
  EXPECT_EQ(failure.chunk.error().code(), ErrorCode::timeout) << failure.chunk.error().to_string();
  // The chunks before it arrive, then its error does.
  for (std::uint64_t i = 0; i + 1 < saved; ++i) {
    ASSERT_TRUE(pair.load("r").ok());
    const ChunkEvent event = pair.next_received();
    ASSERT_TRUE(event.chunk.ok()) << event.chunk.error().to_string();
    ASSERT_EQ(bytes_of(*event.chunk), pattern(kLarge, i));
  }
  ASSERT_TRUE(pair.load("r").ok());
  const ChunkEvent event = pair.next_received();
  ASSERT_FALSE(event.chunk.ok());
  EXPECT_EQ(event.chunk.error().code(), ErrorCode::cancelled);
  pair.source->finish("r", "r");
  pair.expect_all_returned();
}

TEST(ChunkSpace, a_last_chunk_that_finds_no_space_is_an_error_at_both_ends) {
  ChunkAdapterOptions options;
  options.space_timeout = ms(50);
  StagePair pair({.pool_size = 1 << 20, .route = "lease"}, options);
  ASSERT_TRUE(pair.load("r").ok());
  // Somebody else has the whole pool.
  auto taken = pair.sender->allocate(1 << 20);
  ASSERT_TRUE(taken.ok());
  ASSERT_TRUE(pair.save_end("r").ok());
  EXPECT_EQ(pair.next_of_source().chunk.error().code(), ErrorCode::timeout);
  EXPECT_EQ(pair.next_received().chunk.error().code(), ErrorCode::cancelled);
}

TEST(ChunkSpace, R07_an_abort_does_not_wait_for_space) {
  StagePair pair({.pool_size = 1 << 20});
  fill_pool(pair, "r");
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(pair.save("r", pattern(kLarge, i)).ok());
  pair.source->abort("r", "r", "given up");
  ASSERT_TRUE(pair.source->flush(ms(20'000)).ok());
  EXPECT_EQ(pair.source->counters().waiting_for_space, 0U);
  EXPECT_TRUE(eventually([&] { return pair.sender->health().pool_free == pair.sender_free; }));
  // The next to wait gets the space.
  ASSERT_TRUE(pair.save("other", pattern(900'000, 7)).ok());
  ASSERT_TRUE(pair.load("other").ok());
  const ChunkEvent event = pair.next_received();
  ASSERT_TRUE(event.chunk.ok());
  EXPECT_EQ(bytes_of(*event.chunk), pattern(900'000, 7));
}

TEST(ChunkSpace, R07_the_receivers_abort_ends_the_wait_for_space) {
  StagePair pair({.pool_size = 1 << 20});
  ASSERT_TRUE(pair.load("r").ok());
  fill_pool(pair, "r");
  pair.target->abort("target-r", "r", "given up");
  const ChunkEvent event = pair.next_of_source();
  EXPECT_EQ(event.chunk.error().code(), ErrorCode::cancelled);
  EXPECT_TRUE(eventually([&] { return pair.sender->health().pool_free == pair.sender_free; }));
}

}  // namespace
}  // namespace stagewire::chunk
