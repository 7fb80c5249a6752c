// Qwen2.5-Omni's codes: single ids at 50 Hz, for a decoder that works in blocks of 12 and looks 10 ahead.
#include "chunk/processors/processor_fixture.hpp"

namespace stagewire::chunk::qwen2_5_omni {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

struct Window {
  std::vector<std::int64_t> codes;
  std::int64_t left = 0;
  std::int64_t holdback = 0;
};

class Qwen25Talker : public ::testing::Test {
 protected:
  void configure(int chunk, int left, int initial = 0) {
    processor = make("qwen2_5_omni.talker2code2wav_async_chunk", {chunk, left, initial});
  }
  std::optional<Window> give(const std::vector<std::int64_t>& codes, bool terminal = false) {
    const TestTensor tensor = TestTensor::codes(codes, 0);
    const auto chunk = processed(*processor, request, codes_output(tensor), terminal);
    return chunk ? std::optional(window_of(*chunk)) : std::nullopt;
  }
  static Window window_of(const Value& chunk) {
    return {codes_of(chunk), *part(chunk, "meta", "left_context_size").get_if<std::int64_t>(),
            *part(chunk, "meta", "right_holdback_size").get_if<std::int64_t>()};
  }
  /// The windows of the codes 0 to count - 1, one a step, and the end.
  std::vector<Window> windows(std::int64_t count) {
    std::vector<Window> all;
    for (std::int64_t code = 0; code < count; ++code) {
      if (auto window = give({code})) all.push_back(std::move(*window));
    }
    const auto end = processed(*processor, request, Value(), true);
    if (end) all.push_back(window_of(*end));
    return all;
  }

  TestRequest request;
  std::unique_ptr<ChunkProcessor> processor = make("qwen2_5_omni.talker2code2wav_async_chunk");
};

TEST_F(Qwen25Talker, a_window_is_three_blocks_with_three_before_and_ten_codes_ahead) {
  const auto made = windows(100);
  ASSERT_EQ(made.size(), 3U);
  EXPECT_THAT(made[0].codes, ElementsAreArray(counting(0, 46)));
  EXPECT_EQ(made[0].left, 0);
  EXPECT_EQ(made[0].holdback, 10);
  EXPECT_THAT(made[1].codes, ElementsAreArray(counting(0, 82)));
  EXPECT_EQ(made[1].left, 36);
  EXPECT_EQ(made[1].holdback, 10);
  EXPECT_THAT(made[2].codes, ElementsAreArray(counting(36, 64)));
  EXPECT_EQ(made[2].left, 36);
  EXPECT_EQ(made[2].holdback, 0) << "nothing comes after it";
}

TEST_F(Qwen25Talker, sizes_are_rounded_up_to_whole_blocks) {
  configure(1, 13, 5);
  const auto made = windows(40);
  ASSERT_EQ(made.size(), 3U);
  EXPECT_EQ(made[0].codes.size(), 22U);
  EXPECT_EQ(made[1].left, 12) << "the initial window";
  EXPECT_EQ(made[2].left, 24);
  EXPECT_EQ(made[2].codes.size(), 24U + 16);
}

TEST_F(Qwen25Talker, start_pad_and_end_are_no_audio_and_zero_is) {
  EXPECT_FALSE(give({8293, 8292, 8292}));
  EXPECT_FALSE(give({0, 1, 2}));
  const auto window = give({8294}, true);
  ASSERT_TRUE(window);
  EXPECT_THAT(window->codes, ElementsAre(0, 1, 2));
}

TEST_F(Qwen25Talker, codes_may_stand_in_a_column) {
  const TestTensor column = TestTensor::codes({5, 6}, 1);
  const auto chunk = processed(*processor, request, codes_output(column), true);
  ASSERT_TRUE(chunk);
  EXPECT_THAT(codes_of(*chunk), ElementsAre(5, 6));
}

TEST_F(Qwen25Talker, several_codes_in_a_step_keep_to_whole_blocks) {
  configure(12, 0);
  const auto window = give(counting(0, 47));
  ASSERT_TRUE(window);
  EXPECT_EQ(window->holdback, 11) << "three blocks are new: 36 of 47";
  const auto next = give({47});
  EXPECT_FALSE(next);
}

TEST_F(Qwen25Talker, codes_out_of_range_are_refused) {
  for (const std::int64_t code : {std::int64_t{-1}, std::int64_t{8295}}) {
    const TestTensor tensor = TestTensor::codes({code}, 0);
    const auto refused = processor->process(request.view(), codes_output(tensor), false);
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(refused.error().message(), HasSubstr("0 to 8291"));
  }
}

class Qwen25WholeTalker : public ::testing::Test {
 protected:
  Result<Value*> end(const std::vector<std::vector<std::int64_t>>& steps) {
    for (const auto& codes : steps) {
      const TestTensor tensor = TestTensor::codes(codes, 0);
      EXPECT_FALSE(processed(*processor, request, codes_output(tensor)));
    }
    return processor->process(request.view(), Value(), true);
  }
  TestRequest request;
  std::unique_ptr<ChunkProcessor> processor = make("qwen2_5_omni.talker2code2wav_full_payload");
};

TEST_F(Qwen25WholeTalker, sends_a_list_of_all_codes_without_marks) {
  const auto payload = end({{8293, 8292}, {7, 0}, {8291}, {8294}});
  ASSERT_TRUE(payload.ok());
  EXPECT_EQ(part_text(**payload, "codes", "audio"), ids_text({7, 0, 8291}));
}

TEST_F(Qwen25WholeTalker, places_without_a_code_at_the_end_repeat_the_last_one) {
  const auto payload = end({{7, 8}, {-1}, {-1, 8294}});
  ASSERT_TRUE(payload.ok());
  EXPECT_EQ(part_text(**payload, "codes", "audio"), ids_text({7, 8, 8, 8}));
}

TEST_F(Qwen25WholeTalker, places_without_a_code_before_others_are_refused) {
  const auto payload = end({{7, -1}, {8}});
  ASSERT_FALSE(payload.ok());
  EXPECT_THAT(payload.error().message(), HasSubstr("has the code 8 after a place without one"));
}

TEST_F(Qwen25WholeTalker, no_audio_is_an_error_instead_of_a_consumer_that_waits) {
  const auto payload = end({{8293, 8294}});
  ASSERT_FALSE(payload.ok());
  EXPECT_THAT(payload.error().message(), HasSubstr("no code of audio"));
}

}  // namespace
}  // namespace stagewire::chunk::qwen2_5_omni
