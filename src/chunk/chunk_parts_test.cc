// Keys, flags and copies by themselves.
#include <gtest/gtest.h>

#include <cstring>

#include "chunk/chunk_flags.hpp"
#include "chunk/chunk_key.hpp"
#include "chunk/copied_value.hpp"

namespace stagewire::chunk {
namespace {

TEST(ChunkKey, is_made_and_read_back) {
  ChunkKey key;
  key.begin("chatcmpl-1", "0");
  EXPECT_EQ(key.at(0), "chatcmpl-1_0_0");
  EXPECT_EQ(key.at(12345), "chatcmpl-1_0_12345");
  EXPECT_EQ(key.at(7), "chatcmpl-1_0_7");
  const auto parsed = parse_chunk_key("odd_0_id_0_17@0_1", "0", "1");
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->first, "odd_0_id");
  EXPECT_EQ(parsed->second, 17);
  for (const char* const other : {"r_0_1@0_2", "r_0_1@1_1", "r_1_1@0_1", "r_0_x@0_1", "r_0_-1@0_1",
                                  "r_0_@0_1", "@0_1", "", "meet@0_1", "r_0_99999999999999999999@0_1"}) {
    EXPECT_FALSE(parse_chunk_key(other, "0", "1").has_value()) << other;
  }
}

TEST(ChunkFlags, take_their_place_in_the_payload) {
  Value payload(Value::Map{{Value("codes"), Value(Value::Map{})}, {Value("speaker"), Value("ethan")}});
  ASSERT_TRUE(set_flags(payload, {.finished = true, .segment_finished = false}).ok());
  const auto& fields = *payload.get_if<Value::Map>();
  ASSERT_EQ(fields.size(), 3U);
  EXPECT_EQ(*fields[1].first.get_if<std::string_view>(), "meta");
  EXPECT_TRUE(read_flags(payload).finished);
  EXPECT_FALSE(read_flags(payload).segment_finished);
  ASSERT_TRUE(set_flags(payload, {.finished = false, .segment_finished = true}).ok());
  EXPECT_EQ(payload.find("meta")->get_if<Value::Map>()->size(), 2U) << "set, not added";
  EXPECT_FALSE(read_flags(payload).finished);
  EXPECT_TRUE(read_flags(payload).segment_finished);
  Value list{Value::List{}};
  EXPECT_FALSE(set_flags(list, {}).ok());
  Value odd(Value::Map{{Value("meta"), Value(1)}});
  EXPECT_FALSE(set_flags(odd, {}).ok());
}

TEST(ChunkFlags, are_read_as_the_original_reads_them) {
  const Value yes(true);
  const Value one(1);
  const Value none;
  EXPECT_TRUE(is_set(&yes));
  EXPECT_TRUE(is_set(&one));
  EXPECT_FALSE(is_set(&none));
  EXPECT_FALSE(is_set(nullptr));
  const std::byte bytes[2] = {std::byte{1}, std::byte{0}};
  TensorView tensor;
  tensor.dtype = DType::boolean;
  tensor.data = bytes;
  tensor.shape = {1};
  EXPECT_TRUE(is_set(std::make_unique<Value>(tensor).get())) << "one element, not 0-dim";
  tensor.shape = {2};
  EXPECT_FALSE(is_set(std::make_unique<Value>(tensor).get())) << "more than one element";
}

TEST(CopiedValue, holds_everything_itself_and_reuses_its_memory) {
  CopiedValue copy;
  const std::byte* first = nullptr;
  for (int i = 0; i < 3; ++i) {
    std::vector<std::int16_t> matrix{1, 2, 3, 4, 5, 6};
    std::string text = "speaker";
    TensorView transposed;
    transposed.dtype = DType::int16;
    transposed.shape = {3, 2};
    transposed.strides = {1, 3};
    transposed.data = reinterpret_cast<const std::byte*>(matrix.data());
    const Value value(Value::Map{{Value(text), Value(Value::List{Value(transposed), Value(7)})}});
    ASSERT_TRUE(copy.assign(value).ok());
    matrix.assign(6, 0);
    text = "xxxxxxx";
    const auto& entry = copy.value().get_if<Value::Map>()->at(0);
    EXPECT_EQ(*entry.first.get_if<std::string_view>(), "speaker");
    const auto* tensor = entry.second.get_if<Value::List>()->at(0).get_if<TensorView>();
    EXPECT_TRUE(tensor->strides.empty());
    const std::int16_t expected[] = {1, 4, 2, 5, 3, 6};
    EXPECT_EQ(std::memcmp(tensor->data, expected, sizeof expected), 0);
    if (first == nullptr) first = tensor->data;
    EXPECT_EQ(tensor->data, first);
  }
}

}  // namespace
}  // namespace stagewire::chunk
