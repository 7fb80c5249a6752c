#include "backends/rdma/mori/messages.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/hex.hpp"

namespace stagewire::backends::rdma::mori {
namespace {

using stagewire::testing::from_hex;
using stagewire::testing::to_hex;
using ::testing::HasSubstr;

// What MORI-IO's engines say between two GPUs 0.
const std::string kRegister =
    "00 0000003a 96 a9696e69746961746f72 92 930002ff 930002ff 00 95 00 cd011c 01 9100 92 "
    "c41000000000000000000000ffff0a000001 c406000000000000 00 00";
const std::string kRegistered =
    "00 00000039 96 a6746172676574 92 930002ff 930002ff 03 95 00 ce0001a2b3 01 9100 92 "
    "c41000000000000000000000ffff0a000002 c406000000000000 00 03";
const std::string kAsk = "01 0000000f 94 a6746172676574 00 07 94 00 00 00 00";
const std::string kTold =
    "01 0000001f 94 a6746172676574 03 07 94 cf00007f0000000000 cd1234 cd5678 ce00100000";

TEST(MoriMessages, are_those_of_mori_byte_for_byte) {
  for (const std::string& hex : {kRegister, kRegistered, kAsk, kTold}) {
    const auto frame = from_hex(hex);
    const auto message = decode(frame);
    ASSERT_TRUE(message.ok()) << message.error().to_string();
    EXPECT_EQ(to_hex(encode(*message)), to_hex(frame));
  }
}

TEST(MoriMessages, the_fields_are_where_they_belong) {
  const auto registered = std::get<RegisterEndpoint>(*decode(from_hex(kRegistered)));
  EXPECT_EQ(registered.engine_key, "target");
  EXPECT_EQ(registered.places.local.device, 0);
  EXPECT_EQ(registered.places.remote.kind, MemoryKind::gpu);
  EXPECT_EQ(registered.places.remote.numa_node, -1);
  EXPECT_EQ(registered.device, 3U);
  EXPECT_EQ(registered.endpoint.number, 0x1a2b3U);
  EXPECT_EQ(registered.endpoint.port, 1U);
  EXPECT_EQ(registered.endpoint.gid[15], std::byte{2});
  EXPECT_EQ(registered.rail, 3);
  const auto told = std::get<AskRegion>(*decode(from_hex(kTold)));
  EXPECT_EQ(told.device, 3U);
  EXPECT_EQ(told.id, 7U);
  EXPECT_EQ(told.address, 0x7f0000000000U);
  EXPECT_EQ(told.local_key, 0x1234U);
  EXPECT_EQ(told.remote_key, 0x5678U);
  EXPECT_EQ(told.size, 0x100000U);
}

TEST(MoriMessages, an_older_engine_leaves_the_rail_out) {
  auto frame = from_hex(kRegister);
  frame[4] = static_cast<std::byte>(frame.size() - 5 - 2);
  frame[5] = std::byte{0x94};
  frame.resize(frame.size() - 2);
  const auto message = decode(frame);
  ASSERT_TRUE(message.ok()) << message.error().to_string();
  EXPECT_EQ(std::get<RegisterEndpoint>(*message).rail, -1);
}

TEST(MoriMessages, R16_what_is_wrong_is_named) {
  const auto words = [](const std::string& hex) {
    const auto message = decode(from_hex(hex));
    return message.ok() ? std::string() : message.error().to_string();
  };
  EXPECT_THAT(words("00 0000"), HasSubstr("corrupt"));
  EXPECT_THAT(words("02 00000000"), HasSubstr("kind 2"));
  EXPECT_THAT(words("01 00100000"), HasSubstr("1048576 bytes"));
  EXPECT_THAT(words("01 00000002 94"), HasSubstr("has 1 bytes, not 2"));
  EXPECT_THAT(words("01 0000000f 94 a6746172676574 00 07 93 00 00 00 00"), HasSubstr("mr"));
  EXPECT_THAT(words("01 00000009 94 a0 00 07 94 00 00 00 00"), HasSubstr("ekey"));
  EXPECT_THAT(words("00 0000000f 96 a178 92 930002ff 930003ff 00 94 00"), HasSubstr("kind 3"));
}

TEST(MoriMessages, notifications_are_sixteen_bytes) {
  const auto bytes = encode(Notification{42, 1, 4});
  EXPECT_EQ(to_hex(std::vector(bytes.begin(), bytes.end())),
            to_hex(from_hex("2a00000000000000 01000000 04000000")));
  const auto read = decode_notification(bytes);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->transfer, 42U);
  EXPECT_EQ(read->index, 1);
  EXPECT_EQ(read->count, 4);
  const Notification nonsense[] = {{1, 0, 0}, {1, 0, -1}, {1, -1, 2}, {1, 2, 2}, {1, 0, 1 << 20}};
  for (const Notification& n : nonsense) EXPECT_FALSE(decode_notification(encode(n)).ok());
  EXPECT_FALSE(decode_notification(std::span(bytes).first(15)).ok());
}

}  // namespace
}  // namespace stagewire::backends::rdma::mori
