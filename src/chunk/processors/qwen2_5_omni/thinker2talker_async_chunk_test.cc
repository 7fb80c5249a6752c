#include "chunk/processors/qwen2_5_omni/thinker_fixture.hpp"

namespace stagewire::chunk::qwen2_5_omni {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string rows(std::int64_t first, std::int64_t count, DType dtype = DType::bfloat16) {
  return ThinkerStep(first, count, dtype).latent.text();
}

class Qwen25Thinker : public ::testing::Test {
 protected:
  Qwen25Thinker() { request.prompt_ids = counting(100, 5); }

  std::optional<Value> step(std::int64_t count, bool terminal = false, DType dtype = DType::bfloat16) {
    const ThinkerStep made(next_row_, count, dtype);
    next_row_ += count;
    return processed(*processor, request, made.output(), terminal);
  }

  TestRequest request;
  std::unique_ptr<ChunkProcessor> processor = make("qwen2_5_omni.thinker2talker_async_chunk");
  std::int64_t next_row_ = 0;
};

TEST_F(Qwen25Thinker, chunk_0_holds_the_prompts_rows_and_the_first_after_them) {
  EXPECT_FALSE(step(3));
  EXPECT_FALSE(step(2));
  request.output_ids = {7};
  request.speaker = "Chelsie";
  const auto chunk = step(1);
  ASSERT_TRUE(chunk);
  EXPECT_EQ(part_text(*chunk, "embed", "prefill"), rows(0, 5));
  EXPECT_EQ(part_text(*chunk, "embed", "decode"), rows(5, 1));
  EXPECT_EQ(part_text(*chunk, "ids", "prompt"), ids_text(counting(100, 5)));
  EXPECT_EQ(part_text(*chunk, "ids", "all"), ids_text({100, 101, 102, 103, 104, 7}));
  EXPECT_EQ(part_text(*chunk, "meta", "next_stage_prompt_len"), "7") << "start, five pads, end";
  EXPECT_EQ(testing::text_of(*chunk->find("speaker")), "'Chelsie'");
}

TEST_F(Qwen25Thinker, a_step_that_holds_the_prompts_end_is_cut_there) {
  const auto chunk = step(7);
  ASSERT_TRUE(chunk);
  EXPECT_EQ(part_text(*chunk, "embed", "prefill"), rows(0, 5));
  EXPECT_EQ(part_text(*chunk, "embed", "decode"), rows(5, 2));
}

TEST_F(Qwen25Thinker, further_chunks_hold_the_rows_of_a_step) {
  step(5);
  step(1);
  for (std::int64_t row = 6; row < 9; ++row) {
    const auto chunk = step(1);
    ASSERT_TRUE(chunk);
    EXPECT_EQ(part_text(*chunk, "embed", "decode"), rows(row, 1));
    EXPECT_TRUE(part(*chunk, "embed", "prefill").is_none());
    EXPECT_EQ(chunk->find("ids"), nullptr);
  }
  const auto several = step(3);
  ASSERT_TRUE(several);
  EXPECT_EQ(part_text(*several, "embed", "decode"), rows(9, 3));
}

TEST_F(Qwen25Thinker, the_end_sends_a_prompt_that_has_no_row_after_it) {
  step(4);
  const auto chunk = processed(*processor, request, Value(), true);
  ASSERT_TRUE(chunk);
  EXPECT_EQ(part_text(*chunk, "embed", "prefill"), rows(0, 4));
  EXPECT_TRUE(part(*chunk, "embed", "decode").is_none());
  EXPECT_FALSE(processed(*processor, request, Value(), true));
}

TEST_F(Qwen25Thinker, a_further_segment_is_sent_as_chunk_0_is) {
  request.resumable = true;
  step(5);
  step(1);
  processor->end_segment(request.external_id);
  request.prompt_ids = counting(100, 9);
  EXPECT_FALSE(step(2));
  EXPECT_FALSE(step(1)) << "before any output a single row is the prompt's, too";
  request.output_ids = {70};
  const auto chunk = step(1);
  ASSERT_TRUE(chunk);
  EXPECT_EQ(part_text(*chunk, "embed", "prefill"), rows(6, 3));
  EXPECT_EQ(part_text(*chunk, "embed", "decode"), rows(9, 1));
  EXPECT_EQ(part_text(*chunk, "ids", "prompt"), ids_text({106, 107, 108}));
  EXPECT_EQ(part_text(*chunk, "meta", "next_stage_prompt_len"), "5");
}

TEST_F(Qwen25Thinker, rows_keep_their_dtype_which_may_not_change) {
  step(5, false, DType::float32);
  const auto chunk = step(1, false, DType::float32);
  ASSERT_TRUE(chunk);
  EXPECT_EQ(part_text(*chunk, "embed", "prefill"), rows(0, 5, DType::float32));
  const auto refused = processor->process(request.view(), ThinkerStep(6, 1).output(), false);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message(), AllOf(HasSubstr("chat-1"), HasSubstr("latent is bfloat16 [1, 3584]"),
                                               HasSubstr("float32 [rows, 3584]")));
  EXPECT_TRUE(step(1, false, DType::float32));
}

TEST_F(Qwen25Thinker, bad_output_is_named_and_changes_nothing) {
  step(4);
  const TestTensor wrong_width(DType::bfloat16, {1, 2048});
  const TestTensor wrong_dtype(DType::float16, {1, 3584});
  const std::vector<std::pair<Value, std::string>> bad{
      {Value::Map{}, "latent is missing, expected bfloat16 or float32 [rows, 3584]"},
      {Value::Map{{"latent", wrong_width.view()}}, "latent is bfloat16 [1, 2048], expected"},
      {Value::Map{{"latent", wrong_dtype.view()}}, "latent is float16 [1, 3584], expected"},
      {ThinkerStep(0, 66).output(), "latent is bfloat16 [66, 3584], expected"},
      {7, "output is no map"}};
  for (const auto& [output, words] : bad) {
    const auto refused = processor->process(request.view(), output, false);
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(refused.error().message(), HasSubstr(words));
  }
  step(1);
  const auto chunk = step(1);
  ASSERT_TRUE(chunk);
  EXPECT_EQ(part_text(*chunk, "embed", "prefill"), rows(0, 5));
}

}  // namespace
}  // namespace stagewire::chunk::qwen2_5_omni
