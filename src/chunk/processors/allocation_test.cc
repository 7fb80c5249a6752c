// After warm-up a decode chunk allocates nothing: neither the processor nor the encoding.
#include "chunk/allocation_fixture.hpp"
#include "chunk/processors/qwen2_5_omni/thinker2talker_async_chunk.hpp"
#include "chunk/processors/qwen2_5_omni/thinker_fixture.hpp"
#include "chunk/processors/qwen3_omni/thinker2talker_async_chunk.hpp"
#include "chunk/processors/qwen3_omni/thinker_fixture.hpp"
#include "chunk/processors/talker2code2wav_async_chunk.hpp"
#include "support/counting_heap.hpp"

namespace stagewire::chunk {

std::size_t allocations_of_this_thread() {
  return test::allocations_of_this_thread;
}
std::size_t allocations_of_all() {
  return test::allocations_of_all;
}

}  // namespace stagewire::chunk

namespace stagewire::chunk {
namespace {

/// Allocations of `steps` further steps with the same output.
template <typename State>
std::size_t allocations(PerRequestProcessor<State>& processor, const TestRequest& request,
                        const Value& output, int steps) {
  std::vector<std::byte> target(100'000);
  const ChunkRequest view = request.view();
  int chunk_count = 0;
  const std::size_t before = allocations_of_all();
  for (int i = 0; i < steps; ++i) {
    const auto payload = processor.process(view, output, false);
    if (!payload.ok() || *payload == nullptr) continue;
    chunk_count += encode(**payload, target).ok() ? 1 : 0;
  }
  const std::size_t after = allocations_of_all();
  EXPECT_GT(chunk_count, 0);
  return after - before;
}

TEST_F(Allocations, none_for_a_row_of_qwen3_omni) {
  qwen3_omni::Thinker2TalkerAsyncChunk processor;
  TestRequest request;
  request.prompt_ids = counting(0, 5);
  request.speaker = "a speaker whose name is too long for a string without memory of its own";
  const qwen3_omni::ThinkerStep prompt(0, 6);
  const qwen3_omni::ThinkerStep row(6, 1);
  const Value output = row.output();
  ASSERT_TRUE(processed(processor, request, prompt.output()));
  EXPECT_GT(allocations(processor, request, output, 1), 0U) << "the counter counts";
  EXPECT_EQ(allocations(processor, request, output, 100), 0U);
}

TEST_F(Allocations, none_for_a_row_of_qwen2_5_omni) {
  qwen2_5_omni::Thinker2TalkerAsyncChunk processor;
  TestRequest request;
  request.prompt_ids = counting(0, 5);
  const qwen2_5_omni::ThinkerStep prompt(0, 6);
  const qwen2_5_omni::ThinkerStep row(6, 1);
  const Value output = row.output();
  ASSERT_TRUE(processed(processor, request, prompt.output()));
  ASSERT_TRUE(processed(processor, request, output));
  EXPECT_EQ(allocations(processor, request, output, 100), 0U);
}

TEST_F(Allocations, none_for_the_windows_of_both_models) {
  for (const bool qwen3 : {true, false}) {
    const CodecForm& form = qwen3 ? kQwen3Codec : kQwen25Codec;
    Talker2Code2WavAsyncChunk processor(form, *WindowSizes::from({}, form));
    const TestRequest request;
    const TestTensor frame = TestTensor::codes(counting(1, qwen3 ? 16 : 1), qwen3 ? 16 : 1);
    const Value output = codes_output(frame);
    for (int i = 0; i < 200; ++i) processed(processor, request, output);
    EXPECT_EQ(allocations(processor, request, output, 200), 0U);
  }
}

}  // namespace
}  // namespace stagewire::chunk
