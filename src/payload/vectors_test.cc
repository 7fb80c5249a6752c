// What OmniSerializer wrote with the real msgspec, torch and numpy: the same bytes from us, the same values
// for us.
#include "support/vectors.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <memory>
#include <numeric>

#include "support/payload.hpp"

namespace stagewire {
namespace {

using namespace stagewire::testing;

// Keeps the bytes that views point at.
class Expected {
 public:
  Value tensor(DType dtype, std::vector<std::int64_t> shape, std::string_view hex) {
    return TensorView{dtype, std::move(shape), keep(hex).data(), {}};
  }
  Value array(std::string dtype, std::vector<std::int64_t> shape, std::string_view hex) {
    return NdarrayView{std::move(dtype), std::move(shape), keep(hex)};
  }
  Value flag(bool value) { return tensor(DType::boolean, {}, value ? "01" : "00"); }
  std::span<const std::byte> keep(std::string_view hex) {
    kept_.push_back(std::make_unique<std::vector<std::byte>>(from_hex(hex)));
    return *kept_.back();
  }
  std::span<const std::byte> keep(std::vector<std::byte> bytes) {
    kept_.push_back(std::make_unique<std::vector<std::byte>>(std::move(bytes)));
    return *kept_.back();
  }

 private:
  std::vector<std::unique_ptr<std::vector<std::byte>>> kept_;
};

// 0 to 5 in each dtype.
const std::map<std::string, std::pair<DType, std::string>>& counting() {
  static const std::map<std::string, std::pair<DType, std::string>> all{
      {"bool", {DType::boolean, "000101010101"}},
      {"uint8", {DType::uint8, "000102030405"}},
      {"int8", {DType::int8, "000102030405"}},
      {"int16", {DType::int16, "000001000200030004000500"}},
      {"uint16", {DType::uint16, "000001000200030004000500"}},
      {"int32", {DType::int32, "000000000100000002000000030000000400000005000000"}},
      {"uint32", {DType::uint32, "000000000100000002000000030000000400000005000000"}},
      {"int64",
       {DType::int64,
        "0000000000000000010000000000000002000000000000000300000000000000 04000000000000000500000000000000"}},
      {"uint64",
       {DType::uint64,
        "0000000000000000010000000000000002000000000000000300000000000000 04000000000000000500000000000000"}},
      {"float16", {DType::float16, "0000003c0040004200440045"}},
      {"bfloat16", {DType::bfloat16, "0000803f004040408040a040"}},
      {"float32", {DType::float32, "000000000000803f0000004000004040000080400000a040"}},
      {"float64",
       {DType::float64,
        "0000000000000000000000000000f03f0000000000000040000000000000084000000000000010400000000000001440"}},
      {"complex64",
       {DType::complex64,
        "00000000 00000000 0000803f 00000000 00000040 00000000 00004040 00000000 00008040 00000000 0000a040 "
        "00000000"}},
      {"complex128",
       {DType::complex128,
        "0000000000000000 0000000000000000 000000000000f03f 0000000000000000 0000000000000040 "
        "0000000000000000"
        "0000000000000840 0000000000000000 0000000000001040 0000000000000000 0000000000001440 "
        "0000000000000000"}},
      {"float8_e4m3fn", {DType::float8_e4m3fn, "00384044484a"}},
      {"float8_e5m2", {DType::float8_e5m2, "003c40424445"}},
      {"float8_e4m3fnuz", {DType::float8_e4m3fnuz, "0040484c5052"}},
      {"float8_e5m2fnuz", {DType::float8_e5m2fnuz, "004044464849"}},
  };
  return all;
}

std::vector<std::byte> bfloat16_ramp(std::size_t count) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(i) / 256.0F);
    const std::uint32_t rounded = (bits + 0x7fff + ((bits >> 16U) & 1U)) >> 16U;  // to nearest, ties to even
    bytes.push_back(static_cast<std::byte>(rounded & 0xffU));
    bytes.push_back(static_cast<std::byte>(rounded >> 8U));
  }
  return bytes;
}

Value plain(Expected& expected) {
  const Value::List ints{0,
                         127,
                         128,
                         -1,
                         -32,
                         -33,
                         255,
                         256,
                         65535,
                         65536,
                         std::int64_t{0xffffffff},
                         std::int64_t{0x100000000},
                         std::int64_t{INT64_MAX},
                         std::int64_t{INT32_MIN},
                         std::int64_t{INT64_MIN},
                         std::uint64_t{UINT64_MAX}};
  return Value::Map{{"none", {}},
                    {"t", true},
                    {"f", false},
                    {"ints", ints},
                    {"x", 1.5},
                    {"s", "h\xc3\xa4\xc3\x9f"},
                    {"b", expected.keep("00ff")},
                    {"l", Value::List{1, Value::List{2, Value::List{}}}},
                    {"layers", Value::Map{{24, "int key"}}},
                    {"", Value::Map{}}};
}

std::map<std::string, Value> expected_values(Expected& e) {
  std::map<std::string, Value> all;
  for (const auto& [name, content] : counting()) {
    all["tensor_" + name] = e.tensor(content.first, {2, 3}, content.second);
  }
  const std::string transposed = "00000000 00004040 0000803f 00008040 00000040 0000a040";
  all["tensor_scalar_true"] = e.flag(true);
  all["tensor_scalar_bf16"] = e.tensor(DType::bfloat16, {}, "c03f");
  all["tensor_empty"] = e.tensor(DType::float32, {0, 3}, "");
  all["tensor_transposed"] = e.tensor(DType::float32, {3, 2}, transposed);
  all["tensor_window"] = e.tensor(DType::int16, {3, 2}, "06000b0007000c0008000d00");
  all["ndarray_f4"] = e.array("<f4", {2, 2}, "0000803f 00000040 00004040 00008040");
  all["ndarray_i8_scalar"] = e.array("<i8", {}, "0700000000000000");
  all["plain"] = plain(e);
  const Value codes = e.tensor(DType::int64, {3}, "010000000000000002000000000000000300000000000000");
  all["chunk_codes"] = Value::Map{{"codes", Value::Map{{"audio", codes}}},
                                  {"meta", Value::Map{{"finished", e.flag(false)},
                                                      {"is_segment_finished", e.flag(false)},
                                                      {"left_context_size", 0}}}};
  const Value row = TensorView{DType::bfloat16, {1, 2048}, e.keep(bfloat16_ramp(2048)).data(), {}};
  all["chunk_decode"] =
      Value::Map{{"embed", Value::Map{{"decode", row}}},
                 {"meta", Value::Map{{"finished", e.flag(false)}, {"is_segment_finished", e.flag(false)}}}};
  all["chunk_finish"] =
      Value::Map{{"meta", Value::Map{{"finished", e.flag(true)}, {"is_segment_finished", e.flag(true)}}}};
  return all;
}

bool is_control(const std::string& name) {
  return name == "query" || name == "constants" || name.starts_with("reply_") || name.starts_with("pull");
}

TEST(PayloadVectors, R18_encode_gives_the_originals_bytes) {
  Expected keeper;
  for (const auto& [name, value] : expected_values(keeper)) {
    const auto bytes = vectors().find(name);
    ASSERT_NE(bytes, vectors().end()) << name;
    EXPECT_EQ(to_hex(encoded(value)), to_hex(bytes->second)) << name;
  }
}

TEST(PayloadVectors, R18_strided_tensors_give_the_originals_bytes) {
  std::vector<float> rows{0, 1, 2, 3, 4, 5};
  const TensorView transposed{DType::float32, {3, 2}, std::as_bytes(std::span(rows)).data(), {1, 3}};
  EXPECT_EQ(to_hex(encoded(transposed)), to_hex(vectors().at("tensor_transposed")));
  std::vector<std::int16_t> numbers(20);
  std::iota(numbers.begin(), numbers.end(), std::int16_t{0});
  const TensorView window{DType::int16, {3, 2}, std::as_bytes(std::span(numbers).subspan(6)).data(), {1, 5}};
  EXPECT_EQ(to_hex(encoded(window)), to_hex(vectors().at("tensor_window")));
}

TEST(PayloadVectors, R18_decode_gives_the_originals_values) {
  Expected keeper;
  const auto expected = expected_values(keeper);
  std::size_t compared = 0;
  for (const auto& [name, bytes] : vectors()) {
    if (is_control(name)) continue;
    const auto value = expected.find(name);
    ASSERT_NE(value, expected.end()) << name << " is in vectors.json and not tested";
    const auto decoded = decode(bytes);
    ASSERT_TRUE(decoded.ok()) << name << ": " << decoded.error().to_string();
    EXPECT_EQ(text_of(*decoded), text_of(value->second)) << name;
    ++compared;
  }
  EXPECT_EQ(compared, expected.size());
}

TEST(PayloadVectors, R16_every_cut_is_corrupt) {
  ASSERT_FALSE(vectors().empty());
  for (const auto& [name, bytes] : vectors()) {
    if (is_control(name)) continue;
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      const auto decoded = decode(std::span(bytes).first(size));
      ASSERT_FALSE(decoded.ok()) << name << " cut to " << size;
      ASSERT_EQ(decoded.error().code(), ErrorCode::corrupt);
    }
  }
}

}  // namespace
}  // namespace stagewire
