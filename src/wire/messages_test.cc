#include "wire/messages.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "support/hex.hpp"

namespace stagewire::wire {
namespace {

using stagewire::testing::from_hex;
using stagewire::testing::to_hex;
using ::testing::HasSubstr;

constexpr std::string_view kKey = "chatcmpl-1_0_0@0_1";
constexpr std::string_view kKeyHex = "b263686174636d706c2d315f305f3040305f31";

std::vector<std::byte> encoded(const Message& message) {
  std::vector<std::byte> out;
  encode(message, out);
  return out;
}

struct Golden {
  Message message;
  std::string hex;  // after "SW1\0"
};

// One of each, in the order of the type numbers. docs/protocol.md shows the same bytes.
std::vector<Golden> goldens() {
  const std::string key_hex(kKeyHex);
  return {
      {Hello{1, from_hex("90"), from_hex("90"), 65536, true}, "96 01 01 c40190 c40190 ce00010000 c3"},
      {Watch{kKey, false, true, false, true, 3}, "97 02 " + key_hex + " c2 c3 c2 c3 03"},
      {Unwatch{kKey, 3, true}, "94 03 " + key_hex + " 03 c3"},
      {Ready{kKey,
             7,
             4096,
             24,
             PayloadKind::tensor,
             static_cast<std::uint32_t>(DType::float32),
             {2, 3},
             1000000007,
             3},
       "9a 04 " + key_hex + " 07 cd1000 18 01 0b 920203 ce3b9aca07 03"},
      {Release{7, true}, "93 05 07 c3"},
      {Gone{kKey, static_cast<std::uint32_t>(ErrorCode::cancelled), "aborted", 3},
       "95 06 " + key_hex + " 04 a761626f72746564 03"},
      {Pull{9, kKey, from_hex("90"), 8192, 860160}, "96 07 09 " + key_hex + " c40190 cd2000 ce000d2000"},
      {PullDone{9, 0, ""}, "94 08 09 00 a0"},
      {Cancel{9}, "92 09 09"},
      {Failure{static_cast<std::uint32_t>(ErrorCode::corrupt), "bad"}, "93 0a 0a a3626164"},
      {Bye{}, "91 0b"},
      {Nudge{}, "91 0c"},
      {Ping{9}, "92 0d 09"},
      {Pong{9}, "92 0e 09"},
  };
}

TEST(Messages, have_the_documented_bytes_in_both_directions) {
  const auto all = goldens();
  ASSERT_EQ(all.size(), std::variant_size_v<Message>);
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(all[i].message.index(), i);
    const auto bytes = from_hex("53573100 " + all[i].hex);
    EXPECT_EQ(to_hex(encoded(all[i].message)), to_hex(bytes));
    const Result<Message> read = decode(bytes);
    ASSERT_TRUE(read.ok()) << read.error().to_string();
    EXPECT_TRUE(*read == all[i].message) << "type " << i + 1;
  }
}

TEST(Messages, encode_appends_and_allocates_nothing_once_grown) {
  std::vector<std::byte> out = encoded(Bye{});
  const std::size_t first = out.size();
  encode(goldens()[3].message, out);
  EXPECT_TRUE(is_message(std::span(out).subspan(first)));
  const std::byte* place = out.data();
  out.clear();
  encode(goldens()[3].message, out);
  EXPECT_EQ(out.data(), place);
}

TEST(Messages, R16_every_cut_is_corrupt) {
  for (const Golden& golden : goldens()) {
    const auto bytes = encoded(golden.message);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      const Result<Message> read = decode(std::span(bytes).first(size));
      ASSERT_FALSE(read.ok()) << "type " << golden.message.index() + 1 << " cut to " << size;
      EXPECT_EQ(read.error().code(), ErrorCode::corrupt);
    }
  }
}

TEST(Messages, R16_bytes_after_the_end_are_corrupt) {
  auto bytes = encoded(Release{1, true});
  bytes.push_back(std::byte{0});
  EXPECT_THAT(decode(bytes).error().message(), HasSubstr("1 bytes follow"));
}

TEST(Messages, fields_of_a_newer_peer_are_ignored) {
  // A release with a string and a nested map after its last field.
  const auto read = decode(from_hex("53573100 95 05 07 c3 a3616263 81 01 92 c0 c0"));
  ASSERT_TRUE(read.ok()) << read.error().to_string();
  EXPECT_TRUE(*read == Message(Release{7, true}));
}

TEST(Messages, a_newer_peers_message_is_unsupported_not_corrupt) {
  EXPECT_EQ(decode(from_hex("53573100 92 7f 01")).error().code(), ErrorCode::unsupported);
  EXPECT_EQ(decode(from_hex("53573100 91 00")).error().code(), ErrorCode::unsupported);
}

void expect_corrupt(const std::string& hex, const std::string& words) {
  const Result<Message> read = decode(from_hex("53573100 " + hex));
  ASSERT_FALSE(read.ok()) << hex;
  EXPECT_EQ(read.error().code(), ErrorCode::corrupt);
  EXPECT_THAT(read.error().message(), HasSubstr(words));
}

TEST(Messages, a_newer_peers_error_code_is_read_as_failed) {
  const auto read = decode(from_hex("53573100 94 08 09 0e a0"));
  ASSERT_TRUE(read.ok()) << read.error().to_string();
  EXPECT_EQ(std::get<PullDone>(*read).code, static_cast<std::uint32_t>(ErrorCode::failed));
}

TEST(Messages, docs_show_the_bytes_of_each) {
  std::ifstream file(STAGEWIRE_SOURCE_DIR "/docs/protocol.md");
  std::string page{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::erase(page, ' ');
  for (const Golden& golden : goldens()) {
    EXPECT_NE(page.find(to_hex(encoded(golden.message))), std::string::npos)
        << "type " << golden.message.index() + 1;
  }
}

TEST(Messages, R16_values_out_of_their_limits_are_corrupt) {
  expect_corrupt("80", "an array is expected");
  expect_corrupt("91 a0", "type is a string");
  expect_corrupt("92 05 07", "release: 1 fields where at least 2");
  expect_corrupt("93 05 ff c3", "lease -1 is out of its range");
  expect_corrupt("93 05 07 01", "consumed is an integer at offset 3 where a bool is expected");
  expect_corrupt("93 0a 00 a0", "failure: code 0 is out of its range");
  const std::string key(kKeyHex);
  expect_corrupt("9a 04 " + key + " 00 00 00 03 00 90 00 00", "kind 3 is out of its range");
  expect_corrupt("9a 04 " + key + " 00 00 00 00 15 90 00 00", "dtype 21 is out of its range");
  expect_corrupt("9a 04 " + key + " 00 00 08 01 0b 91 ff 00 00", "dimension -1 is out of its range");
  expect_corrupt("9a 04 " + key + " 00 00 08 01 0b 92 02 03 00 00", "shape and dtype do not give size");
  expect_corrupt("9a 04 " + key + " 00 00 00 00 00 dd00000041 00 00",
                 "shape has size 65, allowed are 0 to 64");
  expect_corrupt("9a 04 " + key + " 00 01 cfffffffffffffffff 00 00 90 00 00", "size goes past the end");
}

TEST(Messages, R13_a_key_has_1_to_1024_bytes) {
  EXPECT_THAT(decode(encoded(Unwatch{""})).error().message(),
              HasSubstr("key has size 0, allowed are 1 to 1024"));
  EXPECT_TRUE(decode(encoded(Unwatch{std::string(1024, 'k')})).ok());
  EXPECT_FALSE(decode(encoded(Unwatch{std::string(1025, 'k')})).ok());
}

TEST(Messages, R16_descriptors_and_the_whole_are_bounded) {
  Hello hello;
  hello.engine.assign(kMaxDescriptorSize, std::byte{1});
  hello.pool.assign(kMaxDescriptorSize, std::byte{2});
  EXPECT_TRUE(decode(encoded(hello)).ok());
  hello.pool.push_back(std::byte{2});
  EXPECT_THAT(decode(encoded(hello)).error().message(), HasSubstr("hello: pool has size"));
  hello.pool.assign(kMaxMessageSize, std::byte{2});
  EXPECT_THAT(decode(encoded(hello)).error().message(), HasSubstr("allowed are 65536"));
}

TEST(Messages, a_long_reason_is_cut_not_refused) {
  const auto read = decode(encoded(Failure{1, std::string(5000, 'x')}));
  ASSERT_TRUE(read.ok()) << read.error().to_string();
  EXPECT_EQ(std::get<Failure>(*read).reason, std::string(kMaxReasonSize, 'x'));
}

TEST(Messages, are_told_from_the_originals) {
  EXPECT_TRUE(is_message(encoded(Bye{})));
  EXPECT_FALSE(is_message(encode(OriginalQuery{"k"})));
  EXPECT_FALSE(is_message({}));
}

}  // namespace
}  // namespace stagewire::wire
