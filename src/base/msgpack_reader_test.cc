#include "base/msgpack_reader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/hex.hpp"

namespace stagewire::base {
namespace {

using stagewire::testing::from_hex;
using ::testing::HasSubstr;

std::vector<MsgpackToken> tokens(std::span<const std::byte> bytes) {
  MsgpackReader reader(bytes);
  std::vector<MsgpackToken> all;
  MsgpackToken token;
  while (reader.next(token)) all.push_back(token);
  EXPECT_EQ(reader.left(), 0U) << reader.why().to_string();
  return all;
}

TEST(MsgpackReader, reads_every_form_of_integer) {
  const auto bytes = from_hex(
      "00 7f cc80 cdffff ceffffffff cfffffffffffffffff d005 d10100 d27fffffff d37fffffffffffffff"
      "ff e0 d080 d18000 d280000000 d38000000000000000");
  const std::vector<std::uint64_t> positive{0,          127, 128, 65535,     UINT32_MAX,
                                            UINT64_MAX, 5,   256, INT32_MAX, INT64_MAX};
  const std::vector<std::int64_t> negative{-1, -32, -128, -32768, INT32_MIN, INT64_MIN};
  const auto all = tokens(bytes);
  ASSERT_EQ(all.size(), positive.size() + negative.size());
  for (std::size_t i = 0; i < positive.size(); ++i) {
    EXPECT_EQ(all[i].type, MsgpackType::positive) << i;
    EXPECT_EQ(all[i].number, positive[i]) << i;
  }
  for (std::size_t i = 0; i < negative.size(); ++i) {
    EXPECT_EQ(all[positive.size() + i].type, MsgpackType::negative) << i;
    EXPECT_EQ(all[positive.size() + i].negative, negative[i]) << i;
  }
}

TEST(MsgpackReader, reads_every_other_form) {
  const auto bytes = from_hex(
      "c0 c2 c3 ca3fc00000 cb3ff8000000000000 a161 d90161 da000161 db0000000161 c40162 c5000162 c60000000162"
      "91 dc0001 dd00000001 81 de0001 df00000001 d40162 d801 00000000000000000000000000000000 c70101 62");
  const auto all = tokens(bytes);
  ASSERT_EQ(all.size(), 21U);
  EXPECT_EQ(all[0].type, MsgpackType::nil);
  EXPECT_EQ(all[1].number, 0U);
  EXPECT_EQ(all[2].number, 1U);
  EXPECT_EQ(all[3].real, 1.5);
  EXPECT_EQ(all[4].real, 1.5);
  for (std::size_t i = 5; i < 9; ++i) EXPECT_EQ(all[i].text(), "a") << i;
  for (std::size_t i = 9; i < 12; ++i) {
    EXPECT_EQ(all[i].type, MsgpackType::binary) << i;
    EXPECT_EQ(all[i].text(), "b") << i;
  }
  for (std::size_t i = 12; i < 18; ++i) {
    EXPECT_EQ(all[i].type, i < 15 ? MsgpackType::array : MsgpackType::map) << i;
    EXPECT_EQ(all[i].number, 1U) << i;
  }
  EXPECT_EQ(all[18].text(), "b");
  EXPECT_EQ(all[19].bytes.size(), 16U);
  EXPECT_EQ(all[20].text(), "b");
  EXPECT_EQ(all[20].offset, bytes.size() - 4);
}

TEST(MsgpackReader, R16_a_cut_or_impossible_token_is_refused_where_it_begins) {
  for (const char* hex : {"", "c1", "cc", "cd00", "cf00000000000000", "ca000000", "a2 61", "d902 61",
                          "dbffffffff 61", "c6ffffffff", "dc00", "d4", "c9ffffffff 01"}) {
    const auto bytes = from_hex(hex);
    MsgpackReader reader(bytes);
    MsgpackToken token;
    EXPECT_FALSE(reader.next(token)) << hex;
    EXPECT_EQ(reader.offset(), 0U) << hex;
    EXPECT_EQ(reader.why().code(), ErrorCode::corrupt);
  }
  const auto bad = from_hex("c1");
  EXPECT_THAT(MsgpackReader(bad).why().message(), HasSubstr("c1 at offset 0"));
}

TEST(MsgpackReader, R16_skip_goes_over_whole_values_without_recursion) {
  std::vector<std::byte> deep(1'000'000, std::byte{0x91});
  MsgpackReader unfinished(deep);
  EXPECT_FALSE(unfinished.skip(1));
  deep.push_back(std::byte{0xc0});
  deep.push_back(std::byte{0x05});
  MsgpackReader reader(deep);
  EXPECT_TRUE(reader.skip(1));
  EXPECT_EQ(reader.left(), 1U);
}

}  // namespace
}  // namespace stagewire::base
