// One payload at the end of a stage (async_chunk: false).
#include <bit>

#include "chunk/processors/qwen2_5_omni/thinker_fixture.hpp"
#include "chunk/processors/qwen3_omni/thinker_fixture.hpp"

namespace stagewire::chunk {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal(ChunkProcessor& processor, const TestRequest& request, const Value& output,
                    bool terminal = true) {
  const auto payload = processor.process(request.view(), output, terminal);
  EXPECT_FALSE(payload.ok());
  return payload.ok() ? std::string() : payload.error().message();
}

TEST(Qwen3FullPayload, holds_all_rows_but_the_stop_tokens) {
  const auto processor = make("qwen3_omni.thinker2talker_full_payload");
  TestRequest request;
  request.prompt_ids = counting(100, 5);
  request.language = "English";
  for (const auto& [first, count] : {std::pair(0, 3), std::pair(3, 2), std::pair(5, 1), std::pair(6, 2)}) {
    const qwen3_omni::ThinkerStep made(first, count);
    EXPECT_FALSE(processed(*processor, request, made.output()));
  }
  request.output_ids = {7, 8, 9, 10};
  const qwen3_omni::ThinkerStep last(8, 1);
  const auto payload = processed(*processor, request, last.output(), true);
  ASSERT_TRUE(payload);
  const qwen3_omni::ThinkerStep all(0, 8);
  EXPECT_EQ(part_text(*payload, "embed", "prefill"), all.embedding.text());
  EXPECT_EQ(part_text(*payload, "hidden_states", "output"), all.hidden.text());
  EXPECT_EQ(part_text(*payload, "embed", "tts_pad"), qwen3_omni::ThinkerStep::mark(2).text());
  EXPECT_EQ(part_text(*payload, "ids", "prompt"), ids_text(counting(100, 5)));
  EXPECT_EQ(part_text(*payload, "ids", "all"), ids_text({100, 101, 102, 103, 104, 7, 8, 9, 10}));
  EXPECT_EQ(testing::text_of(*payload->find("language")), "'English'");
}

TEST(Qwen3FullPayload, keeps_a_single_row) {
  const auto processor = make("qwen3_omni.thinker2talker_full_payload");
  const qwen3_omni::ThinkerStep only(0, 1);
  const auto payload = processed(*processor, {}, only.output(), true);
  ASSERT_TRUE(payload);
  EXPECT_EQ(part_text(*payload, "embed", "prefill"), only.embedding.text());
}

TEST(Qwen3FullPayload, an_end_without_tensors_is_an_error_instead_of_a_consumer_that_waits) {
  const auto processor = make("qwen3_omni.thinker2talker_full_payload");
  const TestRequest request;
  EXPECT_THAT(refusal(*processor, request, Value()),
              AllOf(HasSubstr("chat-1"), HasSubstr("has no row in any step")));
  EXPECT_THAT(refusal(*processor, request, Value::Map{}), HasSubstr("hidden_states.layers[0] is missing"));
  const qwen3_omni::ThinkerStep made(0, 2);
  EXPECT_THAT(refusal(*processor, request, made.rows_only()), HasSubstr("embed.tts_bos is missing"));
  EXPECT_TRUE(processed(*processor, request, made.output(), true)) << "none of it was kept";
}

TEST(Qwen3FullPayload, a_further_segment_holds_its_own_rows_and_ids) {
  const auto processor = make("qwen3_omni.thinker2talker_full_payload");
  TestRequest request;
  request.resumable = true;
  request.prompt_ids = counting(100, 3);
  const qwen3_omni::ThinkerStep first(0, 5);
  ASSERT_TRUE(processed(*processor, request, first.output(), true));
  processor->end_segment(request.external_id);
  request.prompt_ids = counting(100, 9);
  const qwen3_omni::ThinkerStep second(5, 6);
  const auto payload = processed(*processor, request, second.output(), true);
  ASSERT_TRUE(payload);
  EXPECT_EQ(part_text(*payload, "embed", "prefill"), qwen3_omni::ThinkerStep(5, 5).embedding.text());
  EXPECT_EQ(part_text(*payload, "ids", "prompt"), ids_text(counting(105, 4)));
}

TEST(Qwen3FullPayload, codes_are_a_list_of_the_frames_whose_ids_are_codes) {
  const auto processor = make("qwen3_omni.talker2code2wav_full_payload");
  TestRequest request;
  const auto frame = [](std::int64_t first) { return counting(first, 16); };
  // The first frame has no id: ids belong to the last frames.
  for (const std::int64_t first : {0, 100, 200, 300, 400}) {
    const TestTensor tensor = TestTensor::codes(frame(first), 16);
    EXPECT_FALSE(processed(*processor, request, codes_output(tensor)));
  }
  auto stop = frame(500);
  stop[0] = 2150;
  const TestTensor last = TestTensor::codes(stop, 16);
  request.output_ids = {100, 4196, 300, 2047, -1};
  const auto payload = processed(*processor, request, codes_output(last), true);
  ASSERT_TRUE(payload);
  std::vector<std::int64_t> expected;
  for (std::int64_t book = 0; book < 16; ++book) {
    for (const std::int64_t first : {100, 300, 400}) expected.push_back(first + book);
  }
  EXPECT_EQ(part_text(*payload, "codes", "audio"), ids_text(expected));
}

TEST(Qwen3FullPayload, no_frame_of_audio_is_an_error) {
  const auto processor = make("qwen3_omni.talker2code2wav_full_payload");
  TestRequest request;
  EXPECT_THAT(refusal(*processor, request, Value()), HasSubstr("no frame of audio"));
  const TestTensor tensor = TestTensor::codes(counting(1, 16), 16);
  EXPECT_THAT(refusal(*processor, request, codes_output(tensor)),
              HasSubstr("int64 [1, 16] with 0 output ids"));
  auto negative = counting(1, 16);
  negative[15] = -1;
  const TestTensor bad = TestTensor::codes(negative, 16);
  EXPECT_THAT(refusal(*processor, request, codes_output(bad), false),
              HasSubstr("the code -1 in codebook 15"));
}

TEST(Qwen25FullPayload, has_the_originals_names_and_float32_rows) {
  const auto processor = make("qwen2_5_omni.thinker2talker_full_payload");
  TestRequest request;
  request.prompt_ids = counting(100, 3);
  request.output_ids = {7, 8};
  const qwen2_5_omni::ThinkerStep prompt(0, 3, DType::float32);
  const qwen2_5_omni::ThinkerStep reply(3, 2, DType::float32);
  EXPECT_FALSE(processed(*processor, request, prompt.output()));
  const auto payload = processed(*processor, request, reply.output(), true);
  ASSERT_TRUE(payload);
  const auto text = [&](std::string_view key) { return testing::text_of(*payload->find(key)); };
  EXPECT_EQ(text("prompt_embeds"), prompt.latent.text());
  EXPECT_EQ(text("thinker_result"), reply.latent.text());
  EXPECT_EQ(text("prompt_embeds_shape"), ids_text({3, 3584}));
  EXPECT_EQ(text("thinker_result_shape"), ids_text({2, 3584}));
  EXPECT_EQ(text("prompt_token_ids"), ids_text({100, 101, 102}));
  EXPECT_EQ(text("thinker_output_token_ids"), ids_text({7, 8}));
  EXPECT_EQ(text("next_stage_prompt_len"), "5");
  EXPECT_EQ(text("finished"), "True");
}

TEST(Qwen25FullPayload, widens_bfloat16_without_a_loss) {
  const auto processor = make("qwen2_5_omni.thinker2talker_full_payload");
  TestRequest request;
  request.prompt_ids = counting(100, 2);
  const qwen2_5_omni::ThinkerStep made(0, 2);
  const auto payload = processed(*processor, request, made.output(), true);
  ASSERT_TRUE(payload);
  const auto* const rows = payload->find("prompt_embeds")->get_if<TensorView>();
  ASSERT_EQ(rows->dtype, DType::float32);
  for (std::size_t i = 0; i < 2U * 3584; ++i) {
    std::uint16_t half = 0;
    std::uint32_t whole = 0;
    std::memcpy(&half, made.latent.view().data + 2 * i, sizeof half);
    std::memcpy(&whole, rows->data + 4 * i, sizeof whole);
    ASSERT_EQ(whole, std::uint32_t{half} << 16U);
  }
  EXPECT_EQ(testing::text_of(*payload->find("thinker_result_shape")), ids_text({0, 3584}));
}

TEST(Qwen25FullPayload, an_end_without_rows_is_an_error) {
  const auto processor = make("qwen2_5_omni.thinker2talker_full_payload");
  EXPECT_THAT(refusal(*processor, {}, Value()), HasSubstr("latent has no row in any step"));
}

}  // namespace
}  // namespace stagewire::chunk
