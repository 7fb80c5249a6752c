#include "chunk/processors/qwen3_omni/thinker_fixture.hpp"

namespace stagewire::chunk::qwen3_omni {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::string_view kName = "qwen3_omni.thinker2talker_async_chunk";

std::string embedding_rows(std::int64_t first, std::int64_t count) {
  return ThinkerStep(first, count).embedding.text();
}
std::string hidden_rows(std::int64_t first, std::int64_t count) {
  return ThinkerStep(first, count).hidden.text();
}
class Qwen3Thinker : public ::testing::Test {
 protected:
  Qwen3Thinker() { request.prompt_ids = counting(100, 5); }

  /// One step of rows after the last ones.
  std::optional<Value> step(std::int64_t count, bool terminal = false) {
    const ThinkerStep made(next_row_, count);
    next_row_ += count;
    return processed(*processor, request, made.output(), terminal);
  }
  void send_chunk_0() {
    step(5);
    request.output_ids = {7};
    ASSERT_TRUE(step(1));
  }
  Error refused(const Value& output, bool terminal = false) {
    const auto payload = processor->process(request.view(), output, terminal);
    EXPECT_FALSE(payload.ok());
    return payload.ok() ? Error(ErrorCode::failed, "") : payload.error();
  }

  TestRequest request;
  std::unique_ptr<ChunkProcessor> processor = make(kName);
  std::int64_t next_row_ = 0;
};

TEST_F(Qwen3Thinker, chunk_0_holds_the_prompts_rows_and_the_first_after_it) {
  EXPECT_FALSE(step(5)) << "the prompt's rows wait for the row after them";
  request.output_ids = {7, 8};
  const auto chunk = step(1);
  ASSERT_TRUE(chunk);
  EXPECT_EQ(part_text(*chunk, "embed", "prefill"), embedding_rows(0, 6));
  EXPECT_EQ(part_text(*chunk, "hidden_states", "output"), hidden_rows(0, 6));
  EXPECT_EQ(part_text(*chunk, "embed", "tts_eos"), ThinkerStep::mark(1).text());
  EXPECT_EQ(part_text(*chunk, "ids", "all"), ids_text({100, 101, 102, 103, 104, 7, 8}));
  EXPECT_EQ(part_text(*chunk, "ids", "prompt"), ids_text({100, 101, 102, 103, 104}));
  EXPECT_EQ(chunk->find("speaker"), nullptr);
}

TEST_F(Qwen3Thinker, fields_stand_in_the_order_of_the_payload_structure) {
  request.speaker = "Ethan";
  request.language = "English";
  step(5);
  const auto chunk = step(1);
  ASSERT_TRUE(chunk);
  const auto names = [](const Value& map) {
    std::vector<std::string> all;
    for (const auto& [key, value] : *map.get_if<Value::Map>())
      all.emplace_back(*key.get_if<std::string_view>());
    return all;
  };
  EXPECT_THAT(names(*chunk),
              ::testing::ElementsAre("hidden_states", "embed", "ids", "meta", "speaker", "language"));
  EXPECT_THAT(names(*chunk->find("embed")),
              ::testing::ElementsAre("prefill", "tts_bos", "tts_eos", "tts_pad"));
  EXPECT_THAT(names(*chunk->find("ids")), ::testing::ElementsAre("all", "prompt"));
}

TEST_F(Qwen3Thinker, a_prompt_in_pieces_waits_until_there_are_more_rows_than_tokens) {
  EXPECT_FALSE(step(2));
  EXPECT_FALSE(step(2));
  EXPECT_FALSE(step(1));
  const auto chunk = step(1);
  ASSERT_TRUE(chunk);
  EXPECT_EQ(part_text(*chunk, "embed", "prefill"), embedding_rows(0, 6));
}

TEST_F(Qwen3Thinker, the_end_sends_what_is_held_however_little) {
  EXPECT_FALSE(step(2));
  const auto chunk = step(1, true);
  ASSERT_TRUE(chunk);
  EXPECT_EQ(part_text(*chunk, "embed", "prefill"), embedding_rows(0, 3));
}

TEST_F(Qwen3Thinker, an_end_without_output_sends_what_is_held) {
  EXPECT_FALSE(step(5));
  const auto chunk = processed(*processor, request, Value(), true);
  ASSERT_TRUE(chunk);
  EXPECT_EQ(part_text(*chunk, "embed", "prefill"), embedding_rows(0, 5));
}

TEST_F(Qwen3Thinker, an_end_with_nothing_held_sends_nothing) {
  EXPECT_FALSE(processed(*processor, request, Value(), true));
  send_chunk_0();
  EXPECT_FALSE(processed(*processor, request, Value(), true));
}

TEST_F(Qwen3Thinker, further_chunks_hold_one_row_and_no_hidden_states) {
  send_chunk_0();
  for (std::int64_t row = 6; row < 9; ++row) {
    const auto chunk = step(1);
    ASSERT_TRUE(chunk);
    EXPECT_EQ(part_text(*chunk, "embed", "decode"), embedding_rows(row, 1));
    EXPECT_EQ(chunk->find("hidden_states"), nullptr);
    EXPECT_EQ(chunk->find("ids"), nullptr);
  }
}

TEST_F(Qwen3Thinker, several_rows_in_a_step_are_sent_not_dropped) {
  send_chunk_0();
  const auto chunk = step(3);
  ASSERT_TRUE(chunk);
  EXPECT_EQ(part_text(*chunk, "embed", "decode"), embedding_rows(6, 3));
  const auto next = step(1);
  ASSERT_TRUE(next);
  EXPECT_EQ(part_text(*next, "embed", "decode"), embedding_rows(9, 1));
}

TEST_F(Qwen3Thinker, speaker_and_language_come_with_every_chunk) {
  request.speaker = "Ethan";
  send_chunk_0();
  for (const std::string speaker : {"Ethan", "Ethan", "Chelsie"}) {
    request.speaker = speaker;
    request.language = "English";
    const auto chunk = step(1);
    ASSERT_TRUE(chunk);
    request.speaker = "another, whose text lies where the first one's did";
    EXPECT_EQ(testing::text_of(*chunk->find("speaker")), "'" + speaker + "'");
    EXPECT_EQ(testing::text_of(*chunk->find("language")), "'English'");
  }
}

TEST_F(Qwen3Thinker, a_further_segment_of_a_resumable_request_is_sent_as_chunk_0_is) {
  request.resumable = true;
  send_chunk_0();
  ASSERT_FALSE(processed(*processor, request, Value(), true));
  processor->end_segment(request.external_id);

  request.prompt_ids = counting(100, 9);
  request.output_ids = {70};
  EXPECT_FALSE(step(3)) << "several rows are a prompt's";
  request.output_ids = {70, 71};
  const auto chunk = step(1);
  ASSERT_TRUE(chunk);
  EXPECT_EQ(part_text(*chunk, "embed", "prefill"), embedding_rows(6, 4));
  EXPECT_EQ(part_text(*chunk, "hidden_states", "output"), hidden_rows(6, 4));
  EXPECT_EQ(part_text(*chunk, "ids", "prompt"), ids_text({106, 107, 108}));
  EXPECT_EQ(part_text(*chunk, "ids", "all"), ids_text({106, 107, 108, 70}));
  EXPECT_TRUE(part(*chunk, "embed", "tts_bos").is_none());

  request.output_ids = {70, 71, 72};
  const auto row = step(1);
  ASSERT_TRUE(row);
  EXPECT_EQ(part_text(*row, "embed", "decode"), embedding_rows(10, 1));
  EXPECT_EQ(part_text(*row, "hidden_states", "output"), hidden_rows(10, 1));
  EXPECT_EQ(part_text(*row, "ids", "output"), ids_text({70, 71, 72}));
}

TEST_F(Qwen3Thinker, a_segments_prompt_in_pieces_loses_none) {
  request.resumable = true;
  send_chunk_0();
  request.prompt_ids = counting(100, 20);
  request.output_ids.clear();
  EXPECT_FALSE(step(4));
  EXPECT_FALSE(step(1)) << "without output yet a single row is the prompt's, too";
  EXPECT_FALSE(step(2));
  const auto chunk = processed(*processor, request, Value(), true);
  ASSERT_TRUE(chunk) << "the end sends what is held";
  EXPECT_EQ(part_text(*chunk, "embed", "prefill"), embedding_rows(6, 7));
  EXPECT_EQ(part_text(*chunk, "ids", "prompt"), ids_text(counting(113, 7)));
}

TEST_F(Qwen3Thinker, a_last_segment_that_is_not_resumable_any_more_loses_none) {
  request.resumable = true;
  send_chunk_0();
  request.resumable = false;
  request.prompt_ids = counting(0, 300);
  EXPECT_FALSE(step(200));
  const auto chunk = step(1, true);
  ASSERT_TRUE(chunk);
  EXPECT_EQ(part_text(*chunk, "embed", "prefill"), embedding_rows(6, 201));
}

TEST_F(Qwen3Thinker, a_last_row_without_output_goes_as_a_row) {
  request.resumable = true;
  send_chunk_0();
  request.output_ids.clear();
  const auto chunk = step(1, true);
  ASSERT_TRUE(chunk);
  EXPECT_EQ(part_text(*chunk, "embed", "decode"), embedding_rows(6, 1));
  EXPECT_EQ(chunk->find("ids"), nullptr);
}

TEST_F(Qwen3Thinker, an_id_that_is_used_again_begins_anew) {
  send_chunk_0();
  step(1);
  processor->forget(request.external_id);
  processor->forget("never seen");
  processor->end_segment("never seen");
  next_row_ = 50;
  EXPECT_FALSE(step(5));
  const auto chunk = step(1);
  ASSERT_TRUE(chunk);
  EXPECT_EQ(part_text(*chunk, "embed", "prefill"), embedding_rows(50, 6));
}

TEST_F(Qwen3Thinker, requests_do_not_mix) {
  TestRequest other = request;
  other.external_id = "chat-2";
  step(5);
  const ThinkerStep others(1000, 5);
  EXPECT_FALSE(processed(*processor, other, others.output()));
  const auto chunk = step(1);
  ASSERT_TRUE(chunk);
  EXPECT_EQ(part_text(*chunk, "embed", "prefill"), embedding_rows(0, 6));
  processor->forget(request.external_id);
  const ThinkerStep last(1005, 1);
  const auto others_chunk = processed(*processor, other, last.output());
  ASSERT_TRUE(others_chunk);
  EXPECT_EQ(part_text(*others_chunk, "embed", "prefill"), embedding_rows(1000, 6));
}

TEST_F(Qwen3Thinker, dotted_keys_and_layer_keys_of_text_are_the_same) {
  const ThinkerStep made(0, 6);
  const Value flat = Value::Map{{"hidden_states.layer_0", made.embedding.view()},
                                {"hidden_states.layer_24", made.hidden.view()},
                                {"embed.tts_bos", ThinkerStep::mark(0).view()},
                                {"embed.tts_eos", ThinkerStep::mark(1).view()},
                                {"embed.tts_pad", ThinkerStep::mark(2).view()}};
  const auto chunk = processed(*processor, request, flat);
  ASSERT_TRUE(chunk);
  EXPECT_EQ(part_text(*chunk, "hidden_states", "output"), hidden_rows(0, 6));
  const ThinkerStep next(6, 1);
  const Value text_keys = Value::Map{
      {"hidden_states",
       Value::Map{{"layers", Value::Map{{"0", next.embedding.view()}, {"24", next.hidden.view()}}}}}};
  const auto row = processed(*processor, request, text_keys);
  ASSERT_TRUE(row);
  EXPECT_EQ(part_text(*row, "embed", "decode"), embedding_rows(6, 1));
}

TEST_F(Qwen3Thinker, rows_that_do_not_lie_side_by_side_are_gathered) {
  send_chunk_0();
  const TestTensor wide = TestTensor::rows(DType::bfloat16, 6, 1, 4096);
  TensorView every_second = wide.view();
  every_second.shape = {1, 2048};
  every_second.strides = {4096, 2};
  const Value output = Value::Map{
      {"hidden_states", Value::Map{{"layers", Value::Map{{0, every_second}, {24, every_second}}}}}};
  const auto chunk = processed(*processor, request, output);
  ASSERT_TRUE(chunk);
  EXPECT_EQ(testing::to_hex(testing::encoded(part(*chunk, "embed", "decode"))),
            testing::to_hex(testing::encoded(every_second)));
}

TEST_F(Qwen3Thinker, bad_output_is_named_and_changes_nothing) {
  step(3);
  const ThinkerStep good(3, 3);
  const TestTensor floats(DType::float32, {3, 2048});
  const TestTensor narrow(DType::bfloat16, {3, 1024});
  const TestTensor two_rows(DType::bfloat16, {2, 2048});
  const auto layers = [](const Value& embedding, const Value& hidden) -> Value {
    return Value::Map{{"hidden_states", Value::Map{{"layers", Value::Map{{0, embedding}, {24, hidden}}}}}};
  };
  const Value embedding = good.embedding.view();
  const Value hidden = good.hidden.view();
  TensorView astray = good.embedding.view();
  astray.data = nullptr;
  const std::vector<std::pair<Value, std::vector<std::string>>> bad{
      {7, {"output", "no map"}},
      {Value::Map{}, {"hidden_states.layers[0]", "missing", "[rows, 2048]"}},
      {Value::Map{{"hidden_states", Value::Map{{"layers", Value::Map{{0, embedding}}}}}},
       {"hidden_states.layers[24]", "missing"}},
      {layers(floats.view(), hidden),
       {"hidden_states.layers[0]", "float32 [3, 2048]", "bfloat16 [rows, 2048]"}},
      {layers(embedding, narrow.view()), {"hidden_states.layers[24]", "bfloat16 [3, 1024]", "[rows, 2048]"}},
      {layers(embedding, two_rows.view()), {"layers[24]", "bfloat16 [2, 2048]", "bfloat16 [3, 2048]"}},
      {layers(embedding, "text"), {"layers[24]", "no tensor"}},
      {layers(astray, hidden), {"layers[0]", "without data"}}};
  for (const auto& [output, words] : bad) {
    const Error error = refused(output);
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(error.message(), AllOf(HasSubstr("chat-1"), HasSubstr("internal-1")));
    for (const std::string& word : words) EXPECT_THAT(error.message(), HasSubstr(word));
  }
  const auto chunk = step(3);
  ASSERT_TRUE(chunk);
  EXPECT_EQ(part_text(*chunk, "embed", "prefill"), embedding_rows(0, 6)) << "as if they had never come";
}

TEST_F(Qwen3Thinker, more_rows_than_a_step_can_make_are_refused) {
  EXPECT_THAT(refused(ThinkerStep(0, 70).output()).message(),
              AllOf(HasSubstr("bfloat16 [70, 2048]"), HasSubstr("at most 69 rows")));
  send_chunk_0();
  EXPECT_THAT(refused(ThinkerStep(0, 65).output()).message(), HasSubstr("at most 64 rows"));
  EXPECT_TRUE(step(64));
}

TEST_F(Qwen3Thinker, chunk_0_without_the_talkers_marks_is_refused) {
  EXPECT_FALSE(processed(*processor, request, ThinkerStep(0, 5).rows_only()));
  const ThinkerStep last(5, 1);
  EXPECT_THAT(refused(last.rows_only()).message(), AllOf(HasSubstr("embed.tts_bos"), HasSubstr("missing")));
  EXPECT_TRUE(processed(*processor, request, last.output())) << "they may come late";
  const TestTensor flat(DType::bfloat16, {1, 2048});
  request.external_id = "chat-3";
  EXPECT_THAT(refused(Value::Map{{"hidden_states.layer_0", last.embedding.view()},
                                 {"hidden_states.layer_24", last.hidden.view()},
                                 {"embed.tts_pad", flat.view()}})
                  .message(),
              AllOf(HasSubstr("embed.tts_pad is bfloat16 [1, 2048]"), HasSubstr("[1, 1, 2048]")));
}

}  // namespace
}  // namespace stagewire::chunk::qwen3_omni
