// The encoded sizes of the payloads, byte for byte those of the original's.
#include "chunk/processors/qwen3_omni/thinker_fixture.hpp"

namespace stagewire::chunk {
namespace {

std::size_t size_with_flags(const std::optional<Value>& payload) {
  return Delivered(payload, {}).size();
}

TEST(PayloadSizes, of_qwen3_omnis_hidden_states) {
  const auto processor = make("qwen3_omni.thinker2talker_async_chunk");
  TestRequest request;
  request.prompt_ids = counting(1000, 100);
  const qwen3_omni::ThinkerStep prompt(0, 100);
  const qwen3_omni::ThinkerStep row(100, 1);
  EXPECT_FALSE(processed(*processor, request, prompt.output()));
  // Two times 101 rows of 4096 bytes and three marks are 839,680; the ids and the names are the rest.
  const std::size_t chunk_0 = size_with_flags(processed(*processor, request, row.output()));
  EXPECT_EQ(chunk_0 / 10'000, 84U) << "0.84 MB";
  EXPECT_EQ(size_with_flags(processed(*processor, request, row.output())), 4271U);
  EXPECT_EQ(size_with_flags(std::nullopt), 114U) << "the end alone";
}

TEST(PayloadSizes, of_qwen3_omnis_codes) {
  const auto processor = make("qwen3_omni.talker2code2wav_async_chunk");
  const TestRequest request;
  const TestTensor frame = TestTensor::codes(counting(1, 16), 16);
  std::vector<std::size_t> sizes;
  for (int i = 0; i < 75; ++i) {
    const auto chunk = processed(*processor, request, codes_output(frame));
    if (chunk) sizes.push_back(size_with_flags(chunk));
  }
  EXPECT_THAT(sizes, ::testing::ElementsAre(3389U, 6589U, 6589U));
}

}  // namespace
}  // namespace stagewire::chunk
