// The adapter over two real connectors.
#include <gtest/gtest.h>

#include "chunk/chunk_fixture.hpp"

namespace stagewire::chunk {
namespace {

TEST(ChunkAdapter, carries_the_chunks_of_a_request_in_order_and_its_end) {
  StagePair pair;
  ASSERT_TRUE(pair.load("r").ok());
  for (std::uint64_t i = 0; i < 10; ++i) {
    ASSERT_TRUE(pair.save("r", pattern(4096, i)).ok());
  }
  ASSERT_TRUE(pair.save_end("r").ok());
  for (std::int64_t i = 0; i <= 10; ++i) {
    const ChunkEvent event = pair.next_received();
    ASSERT_TRUE(event.chunk.ok()) << event.chunk.error().to_string();
    EXPECT_EQ(event.internal_id, "target-r");
    EXPECT_EQ(event.chunk->index, i);
    EXPECT_EQ(event.chunk->finished, i == 10);
    EXPECT_FALSE(event.chunk->segment_finished);
    if (i < 10) {
      EXPECT_EQ(bytes_of(*event.chunk), pattern(4096, static_cast<std::uint64_t>(i)));
      ASSERT_TRUE(pair.load("r").ok());
    }
  }
  EXPECT_EQ(pair.load("r").error().code(), ErrorCode::closed);
  EXPECT_EQ(pair.target->counters().received, 11U);
  EXPECT_EQ(pair.source->counters().sent, 11U);
  pair.target->finish("target-r", "r");
  pair.expect_all_returned();
}

}  // namespace
}  // namespace stagewire::chunk
