#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/hex.hpp"
#include "wire/messages.hpp"

namespace stagewire::wire {
namespace {

using stagewire::testing::from_hex;
using stagewire::testing::to_hex;
using ::testing::HasSubstr;

const std::string kKey = "chatcmpl-1_0_0@0_1";
// "request_id" and the key.
const std::string kKeyField = "aa726571756573745f6964 b263686174636d706c2d315f305f3040305f31";

TEST(Original, query_has_the_originals_bytes) {
  const auto bytes = from_hex("71756572795f696e666f 81" + kKeyField);
  EXPECT_EQ(to_hex(encode(OriginalQuery{kKey})), to_hex(bytes));
  const auto read = decode_original_request(bytes);
  ASSERT_TRUE(read.ok()) << read.error().to_string();
  EXPECT_TRUE(*read == OriginalRequest(OriginalQuery{kKey}));
}

TEST(Original, response_has_the_originals_bytes) {
  const auto bytes =
      from_hex("83" + kKeyField + "a9646174615f73697a65 ce000d2000 ac69735f666173745f70617468 c2");
  EXPECT_EQ(to_hex(encode(OriginalQueryResponse{kKey, 860160, false})), to_hex(bytes));
  const auto read = decode_original_response(bytes);
  ASSERT_TRUE(read.ok()) << read.error().to_string();
  EXPECT_TRUE(*read == (OriginalQueryResponse{kKey, 860160, false}));
}

TEST(Original, pull_has_the_originals_bytes) {
  const auto bytes = from_hex("85" + kKeyField +
                              "b2656e67696e655f646573635f7061636b6564 c4020102"
                              "af6d656d5f646573635f7061636b6564 c40103 aa6473745f6f6666736574 cd1000"
                              "a66c656e677468 ce000d2000");
  const OriginalPull pull{kKey, from_hex("0102"), from_hex("03"), 4096, 860160};
  EXPECT_EQ(to_hex(encode(pull)), to_hex(bytes));
  const auto read = decode_original_request(bytes);
  ASSERT_TRUE(read.ok()) << read.error().to_string();
  EXPECT_TRUE(*read == OriginalRequest(pull));
}

TEST(Original, fields_may_come_in_any_order_with_others_between) {
  // {"extra": [nil, {1: 2}], "is_fast_path": true, "data_size": 1, "request_id": "k"}
  const auto read =
      decode_original_response(from_hex("84 a56578747261 92c0810102 ac69735f666173745f70617468 c3 "
                                        "a9646174615f73697a65 01 aa726571756573745f6964 a16b"));
  ASSERT_TRUE(read.ok()) << read.error().to_string();
  EXPECT_TRUE(*read == (OriginalQueryResponse{"k", 1, true}));
}

TEST(Original, not_found_is_its_own_error) {
  const std::string words(kInfoNotFound);
  const auto read = decode_original_response(std::as_bytes(std::span(words)));
  EXPECT_EQ(read.error().code(), ErrorCode::not_found);
}

void expect_corrupt(const std::string& hex, const std::string& words) {
  const auto read = decode_original_request(from_hex(hex));
  ASSERT_FALSE(read.ok()) << hex;
  EXPECT_EQ(read.error().code(), ErrorCode::corrupt);
  EXPECT_THAT(read.error().message(), HasSubstr(words));
}

TEST(Original, R16_missing_mistyped_and_hostile_fields_are_corrupt) {
  expect_corrupt("80", "request_id is missing");
  expect_corrupt("90", "not a map");
  expect_corrupt("81 01 02", "where a field's name is expected");
  expect_corrupt("81 aa726571756573745f6964 01", "request_id is an integer where a string is expected");
  expect_corrupt("71756572795f696e666f 81 aa726571756573745f6964 a0", "allowed are 1 to 1024");
  expect_corrupt("71756572795f696e666f 81 aa726571756573745f6964 a16b 00", "1 bytes follow");
  expect_corrupt("df ffffffff", "cut off");
  expect_corrupt("85" + kKeyField +
                     "b2656e67696e655f646573635f7061636b6564 c400 af6d656d5f646573635f7061636b6564 c400"
                     "aa6473745f6f6666736574 cfffffffffffffffff a66c656e677468 01",
                 "go past the end");
}

TEST(Original, R16_every_cut_is_corrupt) {
  const auto bytes = encode(OriginalPull{kKey, from_hex("0102"), from_hex("03"), 4096, 860160});
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_original_request(std::span(bytes).first(size)).ok()) << size;
  }
}

}  // namespace
}  // namespace stagewire::wire
