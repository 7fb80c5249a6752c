// After warm-up a decode chunk takes nothing from the heap, from save() to take(): neither the adapters nor
// the connectors, in any of their threads.
#include "chunk/allocation_fixture.hpp"
#include "chunk/chunk_fixture.hpp"
#include "chunk/processors/qwen3_omni/thinker_fixture.hpp"

namespace stagewire::chunk {
namespace {

constexpr const char* kId = "chatcmpl-a-request-whose-id-is-too-long-for-a-string-without-memory-of-its-own";

/// Two stages between which one request's rows go, each saved when its receiver waits for it.
class RowStream {
 public:
  RowStream() : pair_({.ttl_s = 0}, {}, *make_chunk_processor("qwen3_omni.thinker2talker_async_chunk", {})) {
    // The first step is the prompt's.
    EXPECT_TRUE(pair_.target->load(kId, kId).ok());
    tokens_.assign(5000, 7);
    EXPECT_TRUE(save(prompt_.output()));
    EXPECT_TRUE(take());
  }

  /// Whether as many rows came; adds the heap's use, without that of the test, to `allocations`.
  bool send(int count, std::size_t& allocations) {
    const std::size_t before = allocations_of_all() - of_test_;
    for (int i = 0; i < count; ++i) {
      if (!watched() || !save(output_) || !take()) return false;
    }
    if (!watched()) return false;
    allocations += allocations_of_all() - of_test_ - before;
    return true;
  }

 private:
  bool save(const Value& output) {
    ChunkRequest request;
    request.internal_id = kId;
    request.external_id = kId;
    request.prompt_ids = std::span(tokens_).first(1);
    request.output_ids = std::span(tokens_).subspan(1, static_cast<std::size_t>(saved_));
    ++saved_;
    return pair_.source->save(request, output, {.confirmed_tokens = saved_}).ok();
  }
  bool take() {
    if (!pair_.target->wait(ms(20'000))) return false;
    pair_.target->take(events_);
    if (events_.size() != 1 || !events_[0].chunk) return false;
    events_[0].chunk->delivery.release();
    return pair_.target->load(kId, kId).ok();
  }
  // A chunk that is put before its receiver has asked goes another way.
  bool watched() {
    const std::size_t before = allocations_of_this_thread();
    const bool found = eventually([this] { return pair_.sender->health().watched > 0; });
    of_test_ += allocations_of_this_thread() - before;
    return found;
  }

  StagePair pair_;
  const qwen3_omni::ThinkerStep prompt_{0, 2};
  const qwen3_omni::ThinkerStep row_{2, 1};
  const Value output_ = row_.rows_only();
  std::vector<std::int64_t> tokens_;
  std::int64_t saved_ = 0;
  std::vector<ChunkEvent> events_;
  std::size_t of_test_ = 0;
};

using PathAllocations = Allocations;

TEST_F(PathAllocations, none_for_a_decode_chunk_from_save_to_take) {
  RowStream stream;
  std::size_t allocations = 0;
  ASSERT_TRUE(stream.send(1100, allocations));
  EXPECT_GT(allocations, 0U) << "the counter counts";
  allocations = 0;
  // Its ids, which grow by one each time, have room for 2048 now.
  ASSERT_TRUE(stream.send(500, allocations));
  EXPECT_EQ(allocations, 0U);
}

}  // namespace
}  // namespace stagewire::chunk
