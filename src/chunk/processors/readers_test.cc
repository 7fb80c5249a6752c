// Chunks that no sender of ours makes: the far end names what is wrong and stays as it was.
#include "chunk/processors/code_reader.hpp"
#include "chunk/processors/qwen2_5_omni/thinker_fixture.hpp"
#include "chunk/processors/qwen3_omni/thinker_fixture.hpp"
#include "chunk/processors/thinker_reader.hpp"

namespace stagewire::chunk {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

const Value kEnd = Value::Map{{"meta", Value::Map{{"finished", true}, {"is_segment_finished", true}}}};

/// A map with one key more, or another value for it, inside a group.
Value with(Value chunk, std::string_view group, std::string_view name, const Value& value) {
  auto& entries = *chunk.get_if<Value::Map>();
  if (chunk.find(group) == nullptr) entries.emplace_back(group, Value::Map{});
  chunk.find(group)->get_if<Value::Map>()->emplace_back(name, value);  // the last of a key counts
  return chunk;
}

template <typename Reader>
void expect_refused(Reader& reader, const Value& chunk, const std::string& words) {
  const auto taken = reader.take(chunk);
  ASSERT_FALSE(taken.ok()) << words;
  EXPECT_EQ(taken.error().code(), ErrorCode::corrupt);
  EXPECT_THAT(taken.error().message(), AllOf(HasSubstr("of request chat-1"), HasSubstr(words)));
}

class Qwen3Reader : public ::testing::Test {
 protected:
  Value chunk_0() const {
    return Value::Map{{"hidden_states", Value::Map{{"output", prompt.hidden.view()}}},
                      {"embed", Value::Map{{"prefill", prompt.embedding.view()},
                                           {"tts_bos", prompt.mark(0).view()},
                                           {"tts_eos", prompt.mark(1).view()},
                                           {"tts_pad", prompt.mark(2).view()}}},
                      {"ids", Value::Map{{"all", Value::List{1, 2, 3}}, {"prompt", Value::List{1, 2}}}}};
  }
  const qwen3_omni::ThinkerStep prompt{0, 3};
  const qwen3_omni::ThinkerStep row{3, 1};
  const Value decode = Value::Map{{"embed", Value::Map{{"decode", row.embedding.view()}}}};
  ThinkerReader reader{kQwen3Thinker, Path::chunks, "chat-1"};
};

TEST_F(Qwen3Reader, counts_rows_and_knows_the_end) {
  const Value chunk = chunk_0();  // which what was taken points into
  const auto first = reader.take(chunk);
  ASSERT_TRUE(first.ok()) << first.error().to_string();
  EXPECT_EQ(first->prompt_ids->size(), 2U);
  ASSERT_TRUE(reader.take(decode).ok());
  EXPECT_EQ(reader.row_count(), 4);
  EXPECT_FALSE(reader.finished());
  ASSERT_TRUE(reader.take(kEnd).ok());
  EXPECT_TRUE(reader.finished());
  expect_refused(reader, decode, "chunk 3 of request chat-1: meta.finished was set in a chunk before");
}

TEST_F(Qwen3Reader, refuses_what_does_not_follow) {
  expect_refused(reader, decode, "embed.prefill is missing in the first chunk");
  expect_refused(reader, Value(), "nothing ends with this chunk");
  expect_refused(reader, with(chunk_0(), "embed", "prefill", row.embedding.view()),
                 "embed.prefill is bfloat16 [1, 2048], expected bfloat16 [rows, 2048] with 3 to 66 rows");
  expect_refused(reader, with(chunk_0(), "hidden_states", "output", row.hidden.view()),
                 "hidden_states.output is bfloat16 [1, 2048]");
  expect_refused(reader, with(chunk_0(), "embed", "tts_eos", row.embedding.view()),
                 "embed.tts_eos is bfloat16 [1, 2048], expected bfloat16 [1, 1, 2048]");
  expect_refused(reader, with(chunk_0(), "embed", "prefill", 7), "embed.prefill is no contiguous tensor");
  expect_refused(reader, with(chunk_0(), "ids", "prompt", Value::List{"a"}),
                 "ids.prompt is missing or no list");
  expect_refused(reader, with(chunk_0(), "ids", "all", Value::List{}), "ids.all has 0 ids");
  expect_refused(reader, with(chunk_0(), "meta", "finished", "yes"), "meta.finished is neither a boolean");
  EXPECT_EQ(reader.row_count(), 0);
  ASSERT_TRUE(reader.take(chunk_0()).ok()) << "none of them left a trace";
  const TestTensor floats(DType::float32, {1, 2048});
  expect_refused(reader, Value::Map{{"embed", Value::Map{{"decode", floats.view()}}}},
                 "embed.decode is float32 [1, 2048]");
  expect_refused(reader, with(decode, "hidden_states", "output", prompt.hidden.view()),
                 "hidden_states.output is bfloat16 [3, 2048]");
}

TEST_F(Qwen3Reader, a_prompt_that_ends_early_needs_no_row_after_it) {
  const auto cut = reader.take(
      with(with(chunk_0(), "ids", "prompt", Value::List{1, 2, 3, 4}), "ids", "all", Value::List{1, 2, 3, 4}));
  ASSERT_FALSE(cut.ok());
  const Value ended = with(
      with(with(chunk_0(), "ids", "prompt", Value::List{1, 2, 3, 4}), "ids", "all", Value::List{1, 2, 3, 4}),
      "meta", "finished", true);
  ASSERT_TRUE(reader.take(ended).ok());
  EXPECT_EQ(reader.row_count(), 3);
}

TEST(Qwen25Reader, refuses_what_does_not_follow) {
  ThinkerReader reader(kQwen25Thinker, Path::chunks, "chat-1");
  const qwen2_5_omni::ThinkerStep prompt(0, 2);
  const qwen2_5_omni::ThinkerStep row(2, 1);
  const Value good =
      Value::Map{{"embed", Value::Map{{"prefill", prompt.latent.view()}, {"decode", row.latent.view()}}},
                 {"ids", Value::Map{{"all", Value::List{1, 2, 3}}, {"prompt", Value::List{1, 2}}}},
                 {"meta", Value::Map{{"next_stage_prompt_len", 4}}}};
  expect_refused(
      reader, with(good, "embed", "prefill", row.latent.view()),
      "embed.prefill is bfloat16 [1, 3584], expected bfloat16 or float32 [rows, 3584] with 2 to 2 rows");
  expect_refused(reader, with(good, "meta", "next_stage_prompt_len", 3),
                 "meta.next_stage_prompt_len is 3, expected 4");
  expect_refused(reader, with(good, "embed", "decode", Value()), "embed.decode is no contiguous tensor");
  const auto taken = reader.take(good);
  ASSERT_TRUE(taken.ok()) << taken.error().to_string();
  EXPECT_EQ(reader.row_count(), 3);
}

TEST(FullPayloadReader, takes_one_payload_and_refuses_what_is_none) {
  ThinkerReader reader(kQwen25Thinker, Path::full_payload, "chat-1");
  const qwen2_5_omni::ThinkerStep rows(0, 2, DType::float32);
  const Value good = Value::Map{{"prompt_embeds", rows.latent.view()},
                                {"thinker_result", rows.latent.view()},
                                {"prompt_token_ids", Value::List{1, 2}},
                                {"meta", Value::Map{{"finished", true}}}};
  expect_refused(reader, with(good, "meta", "finished", false), "expected one payload at the end");
  expect_refused(reader, kEnd, "prompt_token_ids is missing");
  ASSERT_TRUE(reader.take(good).ok());
  EXPECT_EQ(reader.row_count(), 4);
  CodeReader codes(kQwen25Codec, *WindowSizes::from({}, kQwen25Codec), Path::full_payload, "chat-1");
  expect_refused(codes, kEnd, "codes.audio is missing or no list of integers");
  expect_refused(codes, with(kEnd, "codes", "audio", Value::List{}), "has 0 codes");
  expect_refused(codes, with(kEnd, "codes", "audio", Value::List{8292}),
                 "the code 8292, allowed are 0 to 8291");
  expect_refused(codes, Value::Map{{"codes", Value::Map{{"audio", Value::List{1}}}}},
                 "one payload at the end");
}

/// The codes of a window as a chunk.
class Window {
 public:
  Window(const std::vector<std::int64_t>& codes, std::int64_t left, std::int64_t holdback)
      : codes_(TestTensor::codes(codes, 0)),
        chunk_(Value::Map{
            {"codes", Value::Map{{"audio", codes_.view()}}},
            {"meta", Value::Map{{"left_context_size", left}, {"right_holdback_size", holdback}}}}) {}
  const Value& chunk() const { return chunk_; }

 private:
  TestTensor codes_;
  Value chunk_;
};

class CodeReaderTest : public ::testing::Test {
 protected:
  const WindowSizes sizes{4, 2, 0};
  CodeReader reader{kQwen25Codec, sizes, Path::chunks, "chat-1"};
};

TEST_F(CodeReaderTest, strips_context_and_held_back_frames) {
  const Window first({1, 2, 3, 4, 5}, 0, 1);
  const Window second({3, 4, 5, 6, 7}, 2, 0);
  ASSERT_TRUE(reader.take(first.chunk()).ok());
  const auto taken = reader.take(second.chunk());
  ASSERT_TRUE(taken.ok()) << taken.error().to_string();
  EXPECT_THAT(taken->codes, ElementsAreArray({5, 6, 7}));
  EXPECT_EQ(reader.frame_count(), 7);
}

TEST_F(CodeReaderTest, refuses_what_does_not_follow) {
  expect_refused(reader, Window({1, 2}, 1, 0).chunk(), "meta.left_context_size is 1, expected 0 to 0");
  expect_refused(reader, Window({1, 2}, 0, 2).chunk(), "meta.right_holdback_size is 2, expected 0 to 1");
  expect_refused(reader, Window({}, 0, 0).chunk(), "has 0 codes");
  expect_refused(reader, Window({1, -1}, 0, 0).chunk(), "the code -1");
  expect_refused(reader, Value::Map{}, "codes.audio is missing and nothing ends");
  const Window first({1, 2, 3, 4, 5}, 0, 1);
  expect_refused(reader, with(first.chunk(), "meta", "left_context_size", "none"),
                 "is missing or no integer");
  const TestTensor bytes(DType::uint8, {5});
  expect_refused(reader, with(first.chunk(), "codes", "audio", bytes.view()),
                 "codes.audio is uint8 [5], expected int64 [codes]");
  ASSERT_TRUE(reader.take(first.chunk()).ok());
  expect_refused(reader, Window({9, 4, 5}, 2, 0).chunk(),
                 "2 frames of left context that are not the last ones");
  expect_refused(reader, Window({4, 9}, 1, 0).chunk(), "does not go on with the 1 frames held back before");
  expect_refused(reader, Window({2, 3, 4, 5}, 3, 0).chunk(), "expected 0 to 2");
  expect_refused(reader, kEnd, "is missing at the end, expected 1 frames held back before");
  EXPECT_EQ(reader.frame_count(), 4);
  EXPECT_TRUE(reader.take(Window({5}, 0, 0).chunk()).ok());
}

TEST_F(CodeReaderTest, frames_of_sixteen_codes_must_be_whole) {
  CodeReader sixteen(kQwen3Codec, sizes, Path::chunks, "chat-1");
  expect_refused(sixteen, Window(counting(1, 15), 0, 0).chunk(),
                 "has 15 codes, expected those of whole frames of 16");
  EXPECT_TRUE(sixteen.take(Window(counting(1, 32), 0, 0).chunk()).ok());
}

}  // namespace
}  // namespace stagewire::chunk
