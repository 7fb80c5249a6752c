// Every way in which a request can end before its last chunk: both ends hear of it, and both free what they
// hold.
#include <gtest/gtest.h>

#include "chunk/chunk_fixture.hpp"

namespace stagewire::chunk {
namespace {

void expect_error(const ChunkEvent& event, ErrorCode code, std::string_view words) {
  ASSERT_FALSE(event.chunk.ok());
  EXPECT_EQ(event.chunk.error().code(), code) << event.chunk.error().to_string();
  EXPECT_NE(event.chunk.error().message().find(words), std::string::npos) << event.chunk.error().message();
}

TEST(ChunkEnding, R07_the_senders_abort_reaches_the_receiver) {
  StagePair pair;
  ASSERT_TRUE(pair.load("waits").ok());
  ASSERT_TRUE(pair.load("reads").ok());
  ASSERT_TRUE(pair.save("reads", pattern(100'000, 1)).ok());
  ASSERT_TRUE(pair.save("reads", pattern(100'000, 2)).ok());
  ASSERT_TRUE(pair.save("unseen", pattern(100'000, 3)).ok());
  const ChunkEvent first = pair.next_received();
  ASSERT_TRUE(first.chunk.ok());
  for (const char* const id : {"waits", "reads", "unseen"}) pair.source->abort(id, id, "the user left");
  ASSERT_TRUE(pair.source->flush(ms(20'000)).ok());
  ASSERT_TRUE(pair.load("reads").ok());
  ASSERT_TRUE(pair.load("unseen").ok());
  std::size_t failed = 0;
  while (failed < 3) {
    const ChunkEvent event = pair.next_received();
    if (event.chunk.ok()) {
      // Chunk 1 was on its way when the abort came.
      EXPECT_EQ(event.internal_id, "target-reads");
      ASSERT_TRUE(pair.load("reads").ok());
      continue;
    }
    expect_error(event, ErrorCode::cancelled, "the user left");
    ++failed;
  }
  EXPECT_EQ(pair.load("waits").error().code(), ErrorCode::closed);
}

TEST(ChunkEnding, R07_the_receivers_abort_frees_the_sender_and_tells_it) {
  StagePair pair;
  ASSERT_TRUE(pair.load("r").ok());
  for (std::uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(pair.save("r", pattern(100'000, i)).ok());
  ASSERT_TRUE(pair.source->flush(ms(20'000)).ok());
  EXPECT_LT(pair.sender->health().pool_free, pair.sender_free);
  pair.target->abort("target-r", "r", "the user left");
  expect_error(pair.next_of_source(), ErrorCode::cancelled, "gave it up");
  EXPECT_TRUE(eventually([&] { return pair.sender->health().pool_free == pair.sender_free; }));
  // What the model still makes of it is left out.
  ASSERT_TRUE(pair.save("r", pattern(10, 1)).ok());
  ASSERT_TRUE(pair.save_end("r").ok());
  ASSERT_TRUE(pair.source->flush(ms(20'000)).ok());
  EXPECT_EQ(pair.source->counters().discarded, 2U);
  pair.expect_all_returned();
}

TEST(ChunkEnding, R07_the_receivers_abort_frees_what_was_sent_to_the_end_already) {
  StagePair pair;
  ASSERT_TRUE(pair.load("r").ok());
  for (std::uint64_t i = 0; i < 5; ++i) ASSERT_TRUE(pair.save("r", pattern(100'000, i)).ok());
  ASSERT_TRUE(pair.save_end("r").ok());
  ASSERT_TRUE(pair.source->flush(ms(20'000)).ok());
  ASSERT_TRUE(pair.next_received().chunk.ok());
  pair.target->abort("target-r", "r", "the user left");
  EXPECT_TRUE(eventually([&] { return pair.sender->health().pool_free == pair.sender_free; }));
  EXPECT_EQ(pair.source->counters().send_errors, 0U);
}

TEST(ChunkEnding, R05_a_sender_that_dies_ends_every_stream) {
  StagePair pair;
  for (const char* const id : {"waits", "between", "segment"}) {
    ASSERT_TRUE(pair.load(id).ok());
    if (std::string_view(id) == "waits") continue;
    StepState state;
    state.segment_finished = std::string_view(id) == "segment";
    ASSERT_TRUE(pair.save(id, pattern(10, 1), state).ok());
    ASSERT_TRUE(pair.next_received().chunk.ok());
  }
  EXPECT_TRUE(eventually([&] { return pair.sender->health().watched == 3; }));
  pair.source.reset();
  pair.sender.reset();
  ASSERT_FALSE(pair.next_received().chunk.ok());
  ASSERT_FALSE(pair.next_received().chunk.ok());
  // One that was not waited for is told when it is.
  ASSERT_TRUE(pair.load("segment").ok());
  const ChunkEvent event = pair.next_received();
  EXPECT_EQ(event.internal_id, "target-segment");
  EXPECT_FALSE(event.chunk.ok());
}

TEST(ChunkEnding, R05_a_receiver_that_dies_ends_what_is_sent_to_it) {
  StagePair pair;
  ASSERT_TRUE(pair.load("r").ok());
  ASSERT_TRUE(pair.save("r", pattern(100'000, 1)).ok());
  ASSERT_TRUE(pair.next_received().chunk.ok());
  for (std::uint64_t i = 0; i < 5; ++i) ASSERT_TRUE(pair.save("r", pattern(100'000, i)).ok());
  ASSERT_TRUE(pair.source->flush(ms(20'000)).ok());
  pair.receiver->close();
  const ChunkEvent event = pair.next_of_source();
  EXPECT_TRUE(event.sending);
  EXPECT_FALSE(event.chunk.ok());
  EXPECT_TRUE(eventually([&] { return pair.sender->health().pool_free == pair.sender_free; }));
  pair.target.reset();
}

TEST(ChunkEnding, R05_a_load_that_waits_too_long_fails_and_so_does_its_sender) {
  ChunkAdapterOptions options;
  options.chunk_timeout = ms(1000);
  StagePair pair({}, options);
  ASSERT_TRUE(pair.save("r", pattern(10, 1)).ok());
  ASSERT_TRUE(pair.load("r").ok());
  ASSERT_TRUE(pair.next_received().chunk.ok());
  // Nobody has asked for the next one, so nobody has waited.
  EXPECT_FALSE(pair.target->wait(ms(1200)));
  ASSERT_TRUE(pair.load("r").ok());
  expect_error(pair.next_received(), ErrorCode::timeout, "r_0_1");
  expect_error(pair.next_of_source(), ErrorCode::cancelled, "gave it up");
}

TEST(ChunkEnding, ending_without_a_last_chunk_is_told) {
  StagePair pair;
  ASSERT_TRUE(pair.load("r").ok());
  ASSERT_TRUE(pair.save("r", pattern(10, 1)).ok());
  pair.source->finish("r", "r");
  ASSERT_TRUE(pair.next_received().chunk.ok());
  ASSERT_TRUE(pair.load("r").ok());
  expect_error(pair.next_received(), ErrorCode::cancelled, "without a last chunk");
}

TEST(ChunkEnding, a_stage_that_closes_tells_those_who_wait) {
  StagePair pair;
  ASSERT_TRUE(pair.load("r").ok());
  ASSERT_TRUE(pair.save("r", pattern(10, 1)).ok());
  ASSERT_TRUE(pair.next_received().chunk.ok());
  ASSERT_TRUE(pair.load("r").ok());
  pair.source.reset();
  expect_error(pair.next_received(), ErrorCode::cancelled, "was closed");
}

class FailingProcessor final : public ChunkProcessor {
 public:
  Result<Value*> process(const ChunkRequest& request, const Value&, bool) override {
    if (request.external_id == "throws") throw std::runtime_error("no such layer");
    return Error(ErrorCode::invalid_argument, "no such layer");
  }
  void end_segment(std::string_view) override {}
  void forget(std::string_view) override {}
};

// Whoever saves may hold a lock that on_ready takes.
TEST(ChunkEnding, who_saves_is_not_told_of_an_error_by_its_own_thread) {
  std::promise<std::thread::id> told;
  ChunkAdapterOptions options;
  options.on_ready = [&] { told.set_value(std::this_thread::get_id()); };
  ConnectorPair pair{PairOptions{}};
  const auto source =
      ChunkTransferAdapter::create(*pair.sender, std::make_unique<FailingProcessor>(), options);
  ASSERT_TRUE(source.ok());
  ASSERT_TRUE((*source)->save(request_of("fails"), output_of(pattern(10, 1)), {}).ok());
  EXPECT_NE(told.get_future().get(), std::this_thread::get_id());
}

TEST(ChunkEnding, a_processors_error_ends_the_request_at_both_ends) {
  StagePair pair({}, {}, std::make_unique<FailingProcessor>());
  for (const char* const id : {"fails", "throws"}) {
    ASSERT_TRUE(pair.load(id).ok());
    ASSERT_TRUE(pair.save(id, pattern(10, 1)).ok());
    const ChunkEvent event = pair.next_of_source();
    EXPECT_EQ(event.internal_id, id);
    EXPECT_TRUE(event.sending);
    EXPECT_NE(event.chunk.error().message().find("no such layer"), std::string::npos);
    expect_error(pair.next_received(), ErrorCode::cancelled, "no such layer");
    pair.source->finish(id, id);
  }
  EXPECT_EQ(pair.source->counters().send_errors, 2U);
}

TEST(ChunkEnding, R15_a_chunk_larger_than_the_pool_fails_at_once_at_both_ends) {
  StagePair pair({.pool_size = 1 << 20});
  ASSERT_TRUE(pair.load("r").ok());
  ASSERT_TRUE(pair.save("r", pattern(2 << 20, 1)).ok());
  EXPECT_EQ(pair.next_of_source().chunk.error().code(), ErrorCode::too_large);
  expect_error(pair.next_received(), ErrorCode::cancelled, "too large");
}

TEST(ChunkEnding, R05_an_id_is_not_used_again_while_a_receiver_may_still_speak_of_its_former_use) {
  ChunkAdapterOptions options;
  options.space_timeout = ms(100);
  StagePair pair({}, options);
  ASSERT_TRUE(pair.load("r").ok());
  ASSERT_TRUE(pair.save_end("r").ok());
  ASSERT_TRUE(pair.next_received().chunk.ok());
  pair.target->finish("target-r", "r");
  testing_support::DeafReceiver deaf(pair);
  ASSERT_TRUE(pair.save("r", pattern(10, 1)).ok());
  expect_error(pair.next_of_source(), ErrorCode::timeout, "receivers have not answered");
  pair.source->abort("r", "r", "it cannot be sent");
  ASSERT_TRUE(pair.source->flush(ms(20'000)).ok());
  deaf.go_on();
  // It is told to the stream that asks for it, and the next use is whole.
  ASSERT_TRUE(pair.load("r").ok());
  expect_error(pair.next_received(), ErrorCode::cancelled, "receivers have not answered");
  pair.target->finish("target-r", "r");
  ASSERT_TRUE(pair.load("r").ok());
  ASSERT_TRUE(pair.save_end("r").ok());
  const ChunkEvent event = pair.next_received();
  ASSERT_TRUE(event.chunk.ok()) << event.chunk.error().to_string();
  EXPECT_TRUE(event.chunk->finished);
}

TEST(ChunkEnding, R13_ids_can_be_used_again_after_every_kind_of_end) {
  StagePair pair;
  ASSERT_TRUE(pair.meet());
  for (std::uint64_t use = 0; use < 60; ++use) {
    const auto payload = pattern(use % 2 == 0 ? 100 : 100'000, use);
    // The receiver is first, or the sender.
    if (use % 4 < 2) {
      ASSERT_TRUE(pair.load("r").ok());
    }
    for (std::uint64_t chunk = 0; chunk < use % 5; ++chunk) ASSERT_TRUE(pair.save("r", payload).ok());
    if (use % 4 >= 2) {
      ASSERT_TRUE(pair.load("r").ok());
    }
    if (use % 5 > 0) {
      ChunkEvent event = pair.next_received();
      ASSERT_TRUE(event.chunk.ok()) << "use " << use << ": " << event.chunk.error().to_string();
      EXPECT_EQ(event.chunk->index, 0);
      ASSERT_EQ(bytes_of(*event.chunk), payload) << "a chunk of a former use";
    }
    // Ended in either order, with chunks unread and loads under way.
    if (use % 3 == 0) pair.source->abort("r", "r", "given up");
    pair.target->abort("target-r", "r", "given up");
    if (use % 3 != 0) pair.source->abort("r", "r", "given up");
    ASSERT_TRUE(pair.source->flush(ms(20'000)).ok());
    std::vector<ChunkEvent> dropped;
    pair.target->take(dropped);
    pair.source->take(dropped);
  }
  pair.expect_all_returned();
}

}  // namespace
}  // namespace stagewire::chunk
