#include "stagewire/payload.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/payload.hpp"

namespace stagewire {
namespace {

using namespace stagewire::testing;
using ::testing::HasSubstr;

std::vector<std::byte> counting_bytes(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + 1);
  return bytes;
}

std::string round_trip(const Value& value) {
  const auto bytes = encoded(value);
  const auto decoded = decode(bytes);
  return decoded ? text_of(*decoded) : decoded.error().to_string();
}

// Every dtype, by number: one that is added must be added here by its size.
TEST(Payload, R18_every_dtype_arrives_bit_exact) {
  for (std::uint8_t number = 0; number <= static_cast<std::uint8_t>(DType::int4); ++number) {
    const auto dtype = static_cast<DType>(number);
    SCOPED_TRACE(std::string(to_string(dtype)));
    EXPECT_EQ(dtype_from_string(to_string(dtype)), dtype);
    for (const std::vector<std::int64_t>& shape :
         std::vector<std::vector<std::int64_t>>{{}, {0}, {5}, {2, 0, 3}, {2, 3, 5}}) {
      const std::uint64_t size = byte_size(dtype, shape).value();
      const auto data = counting_bytes(size);
      const Value tensor = TensorView{dtype, shape, data.data(), {}};
      EXPECT_EQ(round_trip(tensor), text_of(tensor));
    }
  }
}

TEST(Payload, R18_int4_is_packed_two_to_a_byte_row_by_row) {
  EXPECT_EQ(byte_size(DType::int4, std::vector<std::int64_t>{}).value(), 1U);
  EXPECT_EQ(byte_size(DType::int4, std::vector<std::int64_t>{5}).value(), 3U);
  EXPECT_EQ(byte_size(DType::int4, std::vector<std::int64_t>{3, 5}).value(), 9U);
  const auto data = counting_bytes(9);
  const Value strided = TensorView{DType::int4, {3, 5}, data.data(), {5, 1}};
  EXPECT_THAT(encoded_size(strided).error().message(), HasSubstr("int4"));
}

// A tensor seen through strides, and the same copied element by element.
void expect_row_major(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides,
                      std::int64_t first, DType dtype, const std::vector<std::byte>& storage) {
  const std::uint64_t item = byte_size(dtype, {}).value();
  std::vector<std::byte> expected;
  std::vector<std::int64_t> index(shape.size(), 0);
  const std::uint64_t count = byte_size(DType::uint8, shape).value();
  for (std::uint64_t n = 0; n < count; ++n) {
    std::int64_t place = first;
    for (std::size_t d = 0; d < shape.size(); ++d) place += index[d] * strides[d];
    const auto* element = storage.data() + static_cast<std::uint64_t>(place) * item;
    expected.insert(expected.end(), element, element + item);
    for (std::size_t d = shape.size(); d-- > 0 && ++index[d] == shape[d];) index[d] = 0;
  }
  const Value strided =
      TensorView{dtype, shape, storage.data() + static_cast<std::uint64_t>(first) * item, strides};
  const Value packed = TensorView{dtype, shape, expected.data(), {}};
  EXPECT_EQ(round_trip(strided), text_of(packed)) << shape_text(shape) << " by " << shape_text(strides);
}

TEST(Payload, R18_non_contiguous_tensors_are_written_row_major) {
  const auto storage = counting_bytes(120 * 16);
  for (const DType dtype : {DType::uint8, DType::bfloat16, DType::float32, DType::int64, DType::complex128}) {
    expect_row_major({2, 3, 4}, {12, 4, 1}, 0, dtype, storage);  // contiguous after all
    expect_row_major({3, 2}, {1, 3}, 0, dtype, storage);         // transposed
    expect_row_major({2, 3}, {10, 1}, 5, dtype, storage);        // a window: runs of three
    expect_row_major({4, 3, 2, 5}, {30, 10, 5, 1}, 0, dtype, storage);
    expect_row_major({4, 2, 3, 5}, {30, 5, 10, 1}, 0, dtype, storage);  // two middle dimensions swapped
    expect_row_major({5, 4}, {0, 1}, 7, dtype, storage);                // one row expanded
    expect_row_major({6}, {-2}, 20, dtype, storage);                    // backwards, every other one
    expect_row_major({1, 4, 1}, {99, 2, 99}, 0, dtype, storage);  // strides of single elements mean nothing
    expect_row_major({3, 0, 2}, {7, 7, 7}, 0, dtype, storage);    // empty
  }
}

TEST(Payload, keys_keep_their_type_and_order) {
  const Value value =
      Value::Map{{24, "a"}, {"24", "b"}, {-1, {}}, {true, 1}, {1.5, 2}, {{}, 3}, {Value::List{1, "x"}, 4}};
  EXPECT_EQ(round_trip(value), text_of(value));
  const Value twice = Value::Map{{"k", 1}, {"k", 2}};
  EXPECT_EQ(*twice.find("k")->get_if<std::int64_t>(), 2);
  EXPECT_EQ(twice.find("other"), nullptr);
  EXPECT_EQ(Value(1).find("k"), nullptr);
}

TEST(Payload, decoded_views_point_into_the_input) {
  const auto data = counting_bytes(8);
  const auto bytes = encoded(TensorView{DType::uint8, {8}, data.data(), {}});
  const auto decoded = decode(bytes);
  const auto* tensor = decoded.value().get_if<TensorView>();
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->data, bytes.data() + bytes.size() - 8);
}

TEST(Payload, too_small_a_buffer_says_what_is_needed_and_is_not_overrun) {
  const auto data = counting_bytes(100);
  const Value value =
      Value::Map{{"t", TensorView{DType::uint8, {10, 10}, data.data(), {1, 10}}}, {"s", "text"}};
  const std::size_t needed = encoded_size(value).value();
  for (std::size_t size = 0; size < needed; ++size) {
    std::vector<std::byte> room(size + 8, std::byte{0xee});
    const auto written = encode(value, std::span(room).first(size));
    ASSERT_FALSE(written.ok());
    EXPECT_EQ(written.error().code(), ErrorCode::exhausted);
    EXPECT_THAT(written.error().message(), HasSubstr(std::to_string(needed)));
    for (std::size_t i = size; i < room.size(); ++i) ASSERT_EQ(room[i], std::byte{0xee});
  }
}

void expect_refused(const Value& value, ErrorCode code, const std::string& words,
                    const PayloadLimits& limits = {}) {
  const auto size = encoded_size(value, limits);
  ASSERT_FALSE(size.ok()) << words;
  EXPECT_EQ(size.error().code(), code);
  EXPECT_THAT(size.error().message(), HasSubstr(words));
  std::vector<std::byte> room(4096);
  EXPECT_EQ(encode(value, room, limits).error().to_string(), size.error().to_string());
}

TEST(Payload, values_that_cannot_be_encoded_are_refused) {
  const auto data = counting_bytes(16);
  expect_refused("\xff", ErrorCode::invalid_argument, "not UTF-8");
  expect_refused(Value::Map{{Value::Map{}, 1}}, ErrorCode::invalid_argument, "map as a map's key");
  expect_refused(Value::Map{{"__tensor__", 1}}, ErrorCode::invalid_argument, "marked as a tensor");
  expect_refused(Value::Map{{TensorView{DType::uint8, {1}, data.data(), {}}, 1}}, ErrorCode::invalid_argument,
                 "tensor as a map's key");
  expect_refused(TensorView{DType::uint8, {-1}, data.data(), {}}, ErrorCode::invalid_argument, "dimension 0");
  expect_refused(TensorView{DType::uint8, {2, 2}, data.data(), {1}}, ErrorCode::invalid_argument,
                 "1 strides");
  expect_refused(TensorView{DType::uint8, {2}, nullptr, {}}, ErrorCode::invalid_argument, "without data");
  expect_refused(TensorView{static_cast<DType>(99), {2}, data.data(), {}}, ErrorCode::invalid_argument,
                 "no dtype 99");
  expect_refused(NdarrayView{"<f4", {3}, data}, ErrorCode::invalid_argument,
                 "16 bytes whose dtype and shape make 12");
  expect_refused(NdarrayView{"|O", {2}, data}, ErrorCode::unsupported, "|O");
  expect_refused(TensorView{DType::uint8, std::vector<std::int64_t>(65, 1), data.data(), {}},
                 ErrorCode::too_large, "65 dimensions");
  expect_refused(TensorView{DType::int64, {INT64_MAX, 4}, data.data(), {}}, ErrorCode::too_large, "2^64");
}

TEST(Payload, R19_four_gib_in_a_nested_payload_are_refused_with_advice) {
  const std::byte one{};
  expect_refused(TensorView{DType::uint8, {std::int64_t{1} << 32}, &one, {0}}, ErrorCode::too_large,
                 "put it alone");
}

TEST(Payload, limits_hold_in_both_directions) {
  Value nested = 1;
  for (int i = 0; i < 5; ++i) nested = Value::List{nested};
  const auto bytes = encoded(nested);
  EXPECT_TRUE(decode(bytes, {.max_depth = 5}).ok());
  EXPECT_THAT(decode(bytes, {.max_depth = 4}).error().message(), HasSubstr("deeper than 4"));
  expect_refused(nested, ErrorCode::too_large, "deeper than 4", {.max_depth = 4});
  EXPECT_THAT(decode(bytes, {.max_items = 4}).error().message(), HasSubstr("offset 4: 1 entries where 0"));
  expect_refused(nested, ErrorCode::too_large, "more than 4", {.max_items = 4});
  const std::byte data{};
  const Value tensor = TensorView{DType::uint8, {1}, &data, {}};
  EXPECT_TRUE(decode(encoded(tensor), {.max_depth = 2, .max_items = 5}).ok());
  expect_refused(tensor, ErrorCode::too_large, "deeper than 1", {.max_depth = 1});
  expect_refused(tensor, ErrorCode::too_large, "more than 4", {.max_items = 4});
}

void expect_corrupt(const std::string& hex, const std::string& words, ErrorCode code = ErrorCode::corrupt) {
  const auto decoded = decode(from_hex(hex));
  ASSERT_FALSE(decoded.ok()) << hex;
  EXPECT_EQ(decoded.error().code(), code);
  EXPECT_THAT(decoded.error().message(), HasSubstr(words));
}

TEST(Payload, R16_hostile_bytes_are_corrupt_with_their_offset) {
  expect_corrupt("", "offset 0");
  expect_corrupt("c0c0", "1 bytes follow its end at offset 1");
  expect_corrupt("91c1", "c1 at offset 1");
  expect_corrupt("92c0 d501ff 02", "offset 2: an extension type");
  expect_corrupt("92c0 a2c328", "offset 2: the string is not UTF-8");
  expect_corrupt("81 80 01", "offset 1: a map is a map's key");
  expect_corrupt("c6 ffffffff 00", "offset 0");
  expect_corrupt("dd 000f4240 c0", "1000000 entries are more than the input holds");
  expect_corrupt("dd ffffffff c0", "4294967295 entries where 1000000 are still allowed");
  // Each of the nested lists would fit alone; together they claim more than there is.
  expect_corrupt("dc0010 dc0010" + std::string(32, '9').replace(0, 32, "c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0"),
                 "more than the input");
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "91";
  expect_corrupt(deep + "c0", "offset 64: nested deeper than 64");
}

// {"__tensor__": true, "dtype": dtype, "shape": shape, "data": data} with the given parts in hexadecimal.
std::string tensor_hex(const std::string& dtype, const std::string& shape, const std::string& data) {
  return "84 aa5f5f74656e736f725f5f c3 a56474797065" + dtype + "a57368617065" + shape + "a464617461" + data;
}

TEST(Payload, R18_a_tensor_map_that_disagrees_with_itself_is_corrupt) {
  const std::string uint8 = "a575696e7438";
  EXPECT_TRUE(decode(from_hex(tensor_hex(uint8, "920300", "c400"))).ok());
  expect_corrupt(tensor_hex(uint8, "9103", "c402aabb"), "2 bytes of data whose dtype and shape make 3");
  expect_corrupt(tensor_hex(uint8, "9103", "c400"), "0 bytes of data");
  expect_corrupt(tensor_hex(uint8, "91ff", "c400"), "dimension 0 of the shape is -1");
  expect_corrupt(tensor_hex(uint8, "91a0", "c400"), "dimension that is no integer");
  expect_corrupt(tensor_hex(uint8, "93 cf4000000000000000 cf4000000000000000 10", "c400"), "2^64");
  expect_corrupt(tensor_hex("a3666f6f", "9103", "c400"), "dtype foo", ErrorCode::unsupported);
  expect_corrupt(tensor_hex("01", "9103", "c400"), "without a dtype");
  expect_corrupt(tensor_hex(uint8, "01", "c400"), "without a shape");
  expect_corrupt(tensor_hex(uint8, "9103", "a3616263"), "without data");
  expect_corrupt("81 aa5f5f74656e736f725f5f 01", "without a dtype");
}

TEST(Payload, only_a_true_marker_makes_a_tensor) {
  for (const std::string untrue : {"c2", "c0", "00", "a0", "c400", "90", "80", "cb0000000000000000"}) {
    const auto bytes = from_hex("81 aa5f5f74656e736f725f5f" + untrue);
    const auto decoded = decode(bytes);
    ASSERT_TRUE(decoded.ok()) << untrue << decoded.error().to_string();
    EXPECT_NE(decoded->get_if<Value::Map>(), nullptr);
  }
  // The marker may be any true value, anywhere, among other entries: {"data": "", "x": 1, "shape": [0], ...}.
  const auto bytes = from_hex(
      "85 a464617461 c400 a178 01 a57368617065 9100 a56474797065 a575696e7438 aa5f5f74656e736f725f5f a179");
  const auto decoded = decode(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.error().to_string();
  EXPECT_NE(decoded->get_if<TensorView>(), nullptr);
}

// Whatever a value held before, what is decoded into it is what is decoded into a new one.
TEST(Payload, decodes_into_a_value_that_was_used_before) {
  const auto data = counting_bytes(24);
  const TensorView row{DType::float32, {2, 3}, data.data(), {}};
  const TensorView wide{DType::uint8, {1, 2, 3, 4}, data.data(), {}};
  const std::vector<Value> values{
      Value(),
      Value(7),
      Value("text"),
      Value(row),
      Value(NdarrayView{"<f4", {6}, data}),
      Value(Value::List{1, "a", row, Value()}),
      Value(Value::List{Value::Map{{"a", 1}}}),
      Value(Value::Map{{"a", row}, {"b", Value::Map{{"c", wide}}}, {3, Value()}}),
      Value(Value::Map{{"a", wide}, {"b", Value::List{1, 2, 3}}, {"x", 4}, {"y", row}, {"z", 6}}),
  };
  for (const Value& before : values) {
    for (const Value& after : values) {
      const auto bytes_before = encoded(before);
      const auto bytes = encoded(after);
      Value value;
      ASSERT_TRUE(decode(bytes_before, value).ok());
      ASSERT_TRUE(decode(bytes, value).ok());
      EXPECT_EQ(text_of(value), text_of(*decode(bytes)));
    }
  }
}

TEST(Payload, decoding_the_same_form_again_takes_no_new_memory) {
  const auto data = counting_bytes(24);
  const TensorView row{DType::float32, {2, 3}, data.data(), {}};
  const auto bytes = encoded(Value(Value::Map{{"embed", Value::Map{{"decode", row}}}}));
  Value value;
  ASSERT_TRUE(decode(bytes, value).ok());
  const auto* const tensor = value.find("embed")->find("decode")->get_if<TensorView>();
  const std::int64_t* const shape = tensor->shape.data();
  ASSERT_TRUE(decode(bytes, value).ok());
  EXPECT_EQ(value.find("embed")->find("decode")->get_if<TensorView>(), tensor);
  EXPECT_EQ(tensor->shape.data(), shape);
}

TEST(Payload, numpy_dtypes_have_the_size_that_they_say) {
  const auto data = counting_bytes(48);
  for (const auto& [dtype, item] : std::vector<std::pair<std::string, std::size_t>>{{"|b1", 1},
                                                                                    {"|u1", 1},
                                                                                    {">f4", 4},
                                                                                    {"<c16", 16},
                                                                                    {"<M8[ns]", 8},
                                                                                    {"|S3", 3},
                                                                                    {"<U4", 16},
                                                                                    {"<f16", 16}}) {
    const Value array = NdarrayView{dtype, {3}, std::span(data).first(3 * item)};
    EXPECT_EQ(round_trip(array), text_of(array));
  }
  for (const std::string dtype : {"", "f", "<", "<f4x", "<V2", "f4[ns]", "<M8[", "<f99999999999"}) {
    expect_refused(NdarrayView{dtype, {1}, std::span(data).first(4)}, ErrorCode::unsupported,
                   "cannot be moved");
  }
}

TEST(Payload, strings_are_utf8_as_python_has_it) {
  for (const std::string good :
       {"", "a", "h\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x99\x82", "eight ascii letters then \xc3\x9f"}) {
    EXPECT_TRUE(encoded_size(std::string_view(good)).ok()) << good;
  }
  for (const std::string bad : {"\x80", "\xc3", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80",
                                "\xf4\x90\x80\x80", "\xf5", "\xe2\x82", "eight ascii letters then \xff"}) {
    EXPECT_FALSE(encoded_size(std::string_view(bad)).ok()) << to_hex(std::as_bytes(std::span(bad)));
  }
}

}  // namespace
}  // namespace stagewire
