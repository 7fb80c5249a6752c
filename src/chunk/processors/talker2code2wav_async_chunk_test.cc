#include "chunk/processors/processor_fixture.hpp"

namespace stagewire::chunk {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kBooks = 16;

std::int64_t code_of(std::int64_t frame, std::int64_t book) {
  return (frame * kBooks + book) % 2000 + 1;
}

std::vector<std::int64_t> frame_of(std::int64_t frame) {
  std::vector<std::int64_t> codes;
  for (std::int64_t book = 0; book < kBooks; ++book) codes.push_back(code_of(frame, book));
  return codes;
}

class Qwen3Talker : public ::testing::Test {
 protected:
  void configure(int chunk, int left, int initial = 0) {
    processor = make("qwen3_omni.talker2code2wav_async_chunk", {chunk, left, initial});
  }
  std::optional<Value> step(bool terminal = false) { return give(frame_of(next_frame_++), terminal); }
  std::optional<Value> give(const std::vector<std::int64_t>& codes, bool terminal = false) {
    return processed(*processor, request, codes_output(TestTensor::codes(codes, kBooks)), terminal);
  }
  /// The windows of `count` steps and the end: {frames, left context} of each.
  std::vector<std::pair<std::int64_t, std::int64_t>> windows(int count) {
    std::vector<std::pair<std::int64_t, std::int64_t>> all;
    for (int i = 0; i <= count; ++i) {
      const auto chunk = i < count ? step() : processed(*processor, request, Value(), true);
      if (!chunk) continue;
      all.emplace_back(static_cast<std::int64_t>(codes_of(*chunk).size()) / kBooks,
                       *part(*chunk, "meta", "left_context_size").get_if<std::int64_t>());
    }
    return all;
  }

  TestRequest request;
  std::unique_ptr<ChunkProcessor> processor = make("qwen3_omni.talker2code2wav_async_chunk");
  std::int64_t next_frame_ = 0;
};

TEST_F(Qwen3Talker, the_first_window_has_25_frames_and_all_others_25_more_of_left_context) {
  EXPECT_THAT(windows(100),
              ElementsAre(std::pair(25, 0), std::pair(50, 25), std::pair(50, 25), std::pair(50, 25)));
}

TEST_F(Qwen3Talker, codes_are_flat_and_go_codebook_by_codebook) {
  for (int i = 0; i < 49; ++i) step();
  const auto chunk = step();
  ASSERT_TRUE(chunk);
  const auto codes = codes_of(*chunk);
  ASSERT_EQ(codes.size(), 800U);
  for (std::int64_t book = 0; book < kBooks; ++book) {
    for (std::int64_t frame = 0; frame < 50; ++frame)
      ASSERT_EQ(codes[static_cast<std::size_t>(book * 50 + frame)], code_of(frame, book));
  }
}

TEST_F(Qwen3Talker, the_end_sends_the_frames_that_are_left) {
  EXPECT_THAT(windows(32), ElementsAre(std::pair(25, 0), std::pair(32, 25)));
}

TEST_F(Qwen3Talker, a_short_stream_is_one_window) {
  EXPECT_THAT(windows(3), ElementsAre(std::pair(3, 0)));
}

TEST_F(Qwen3Talker, a_last_frame_that_fills_a_window_goes_with_the_end) {
  for (int i = 0; i < 24; ++i) EXPECT_FALSE(step());
  const auto chunk = step(true);
  ASSERT_TRUE(chunk);
  EXPECT_EQ(codes_of(*chunk).size(), 400U);
}

TEST_F(Qwen3Talker, nothing_new_at_the_end_is_nothing_to_send) {
  EXPECT_FALSE(processed(*processor, request, Value(), true));
  for (int i = 0; i < 25; ++i) step();
  EXPECT_FALSE(give(std::vector<std::int64_t>(kBooks), true));
}

TEST_F(Qwen3Talker, left_context_is_what_there_is_up_to_the_configured) {
  configure(10, 25);
  EXPECT_THAT(windows(50), ElementsAre(std::pair(10, 0), std::pair(20, 10), std::pair(30, 20),
                                       std::pair(35, 25), std::pair(35, 25)));
  configure(10, 0);
  request.external_id = "chat-2";
  EXPECT_THAT(windows(20), ElementsAre(std::pair(10, 0), std::pair(10, 0)));
}

TEST_F(Qwen3Talker, an_initial_window_has_its_own_size_and_is_the_second_ones_context) {
  configure(25, 25, 4);
  EXPECT_THAT(windows(79),
              ElementsAre(std::pair(4, 0), std::pair(29, 4), std::pair(50, 25), std::pair(50, 25)));
  configure(10, 2, 6);
  request.external_id = "chat-2";
  EXPECT_THAT(windows(26), ElementsAre(std::pair(6, 0), std::pair(16, 6), std::pair(12, 2)));
}

TEST_F(Qwen3Talker, frames_of_zeros_and_stop_frames_are_no_audio) {
  configure(2, 0);
  for (const std::int64_t control : {2148, 2149, 2150, 4196, 4197, 4198}) {
    auto frame = frame_of(0);
    frame[0] = control;
    frame[5] = -1;  // what a frame of control holds beside it means nothing
    EXPECT_FALSE(give(frame));
  }
  EXPECT_FALSE(give(std::vector<std::int64_t>(kBooks)));
  EXPECT_FALSE(give({}));
  EXPECT_FALSE(step());
  EXPECT_FALSE(give(std::vector<std::int64_t>(kBooks)));
  const auto chunk = step();
  ASSERT_TRUE(chunk);
  EXPECT_EQ(codes_of(*chunk).size(), 2U * kBooks);
  auto zero_first = frame_of(0);
  zero_first[0] = 0;
  EXPECT_FALSE(give(zero_first));
  EXPECT_TRUE(step()) << "a frame with a zero in it is audio";
}

TEST_F(Qwen3Talker, several_frames_in_a_step_count_each) {
  configure(4, 2);
  std::vector<std::int64_t> three;
  for (std::int64_t frame = 0; frame < 3; ++frame) {
    const auto codes = frame_of(frame);
    three.insert(three.end(), codes.begin(), codes.end());
  }
  EXPECT_FALSE(give(three));
  const auto chunk = give(three);
  ASSERT_TRUE(chunk);
  EXPECT_EQ(codes_of(*chunk).size(), 6U * kBooks)
      << "all that are there, none waits for a step that may not come";
}

TEST_F(Qwen3Talker, a_segment_begins_anew) {
  configure(3, 3, 1);
  EXPECT_THAT(windows(5), ElementsAre(std::pair(1, 0), std::pair(4, 1), std::pair(4, 3)));
  processor->end_segment(request.external_id);
  EXPECT_THAT(windows(1), ElementsAre(std::pair(1, 0)));
}

TEST_F(Qwen3Talker, bad_output_is_named_and_changes_nothing) {
  configure(2, 0);
  step();
  auto negative = frame_of(1);
  negative[3] = -5;
  auto large = frame_of(1);
  large[0] = 2048;
  const TestTensor floats(DType::float32, {1, kBooks});
  const auto output = [](const TestTensor& codes) { return codes_output(codes); };
  const TestTensor negative_codes = TestTensor::codes(negative, kBooks);
  const TestTensor large_codes = TestTensor::codes(large, kBooks);
  const TestTensor eight = TestTensor::codes(std::vector<std::int64_t>(8, 1), 8);
  const TestTensor flat = TestTensor::codes(frame_of(1), 0);
  const TestTensor many = TestTensor::codes(std::vector<std::int64_t>(65 * kBooks, 1), kBooks);
  const std::vector<std::pair<Value, std::vector<std::string>>> bad{
      {"text", {"output", "no map"}},
      {Value::Map{}, {"missing", "int64 [frames, 16]"}},
      {Value::Map{{"codes.audio", 7}}, {"no tensor"}},
      {output(floats), {"float32 [1, 16]", "int64 [frames, 16]"}},
      {output(eight), {"int64 [1, 8]", "int64 [frames, 16]"}},
      {output(flat), {"int64 [16]", "int64 [frames, 16]"}},
      {output(many), {"int64 [65, 16]", "at most 64"}},
      {output(negative_codes), {"the code -5 in codebook 3", "0 to 2047"}},
      {output(large_codes), {"the code 2048 in codebook 0", "0 to 2047"}}};
  for (const auto& [value, words] : bad) {
    const auto refused = processor->process(request.view(), value, false);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code(), ErrorCode::invalid_argument);
    EXPECT_THAT(refused.error().message(), HasSubstr("chat-1"));
    for (const std::string& word : words) EXPECT_THAT(refused.error().message(), HasSubstr(word));
  }
  const auto chunk = step();
  ASSERT_TRUE(chunk);
  EXPECT_THAT(codes_of(*chunk), AllOf(::testing::SizeIs(2 * kBooks), ::testing::Contains(code_of(0, 0))));
}

TEST(MakeChunkProcessor, refuses_sizes_that_are_none_and_names_that_are_unknown) {
  const auto refusal = [](std::string_view name, const ChunkProcessorOptions& options) {
    const auto made = make_chunk_processor(name, options);
    EXPECT_FALSE(made.ok());
    return made.ok() ? std::string() : made.error().to_string();
  };
  constexpr std::string_view kName = "qwen3_omni.talker2code2wav_async_chunk";
  EXPECT_THAT(refusal(kName, {0, 25, 0}), HasSubstr("codec_chunk_frames is 0, allowed are 1 to 100000"));
  EXPECT_THAT(refusal(kName, {25, -1, 0}), HasSubstr("codec_left_context_frames is -1"));
  EXPECT_THAT(refusal(kName, {25, 25, 100'001}), HasSubstr("initial_codec_chunk_frames is 100001"));
  EXPECT_THAT(refusal("qwen3_omni.nothing", {}), AllOf(HasSubstr("qwen3_omni.nothing"), HasSubstr(kName)));
}

}  // namespace
}  // namespace stagewire::chunk
