#include "backends/rdma/formats.hpp"

#include <gtest/gtest.h>

#include "backends/rdma/frame.hpp"

namespace stagewire::backends::rdma {
namespace {

Address address() {
  Address a;
  a.instance = 0x0123456789abcdef;
  a.secret = 42;
  for (const char* name : {"mlx5_0:1", "mlx5_1:1"}) {
    Rail rail;
    rail.name = name;
    rail.ethernet = true;
    rail.gid.assign(16, 7);
    rail.mtu = 4096;
    rail.greeter = 17;
    a.rails.push_back(rail);
  }
  return a;
}

LinkEnd link_end() {
  LinkEnd end;
  end.link = 99;
  end.pairs.assign(kMaxQueuePairs, 0xffffff);
  end.buffers = 192;
  end.message_size = 8192;
  end.payload_size = 8192;
  end.payloads = 128;
  end.frames_received = 1ULL << 40;
  return end;
}

TEST(RdmaFormats, an_address_survives) {
  const auto read = unpack_address(pack(address()));
  ASSERT_TRUE(read.ok()) << read.error().to_string();
  EXPECT_EQ(read->instance, 0x0123456789abcdefU);
  ASSERT_EQ(read->rails.size(), 2U);
  EXPECT_EQ(read->rails[1].name, "mlx5_1:1");
  EXPECT_EQ(read->rails[1].gid, std::vector<std::uint8_t>(16, 7));
  EXPECT_EQ(read->rails[1].mtu, 4096U);
}

TEST(RdmaFormats, greetings_survive_and_fit_a_datagram) {
  Call call;
  call.secret = 42;
  call.attempt = 3;
  call.rails.assign(kMaxQueuePairs, 7);
  call.caller_rails.assign(kMaxQueuePairs, 6);
  Address large = address();
  while (large.rails.size() < kMaxRails) large.rails.push_back(large.rails[0]);
  const auto packed = pack(large);
  const auto* data = reinterpret_cast<const std::uint8_t*>(packed.data());
  call.address.assign(data, data + packed.size());
  call.end = link_end();
  const auto bytes = pack(Greeting(call));
  EXPECT_LE(bytes.size(), 1024U);
  const auto read = unpack_greeting(bytes);
  ASSERT_TRUE(read.ok()) << read.error().to_string();
  const auto& again = std::get<Call>(*read);
  EXPECT_EQ(again.attempt, 3U);
  EXPECT_EQ(again.end.pairs, call.end.pairs);
  EXPECT_EQ(again.end.frames_received, 1ULL << 40);
  EXPECT_EQ(again.address, call.address);
  EXPECT_EQ(again.rails, call.rails);
  const auto refusal = unpack_greeting(pack(Greeting(Refusal{5, 6, 7, "no"})));
  ASSERT_TRUE(refusal.ok());
  EXPECT_EQ(std::get<Refusal>(*refusal).text, "no");
  EXPECT_EQ(std::get<Farewell>(*unpack_greeting(pack(Greeting(Farewell{5})))).link, 5U);
  EXPECT_EQ(std::get<Probe>(*unpack_greeting(pack(Greeting(Probe{6, 1, 2})))).caller_rail, 2U);
  EXPECT_EQ(std::get<Reached>(*unpack_greeting(pack(Greeting(Reached{6})))).link, 6U);
}

TEST(RdmaFormats, what_is_out_of_bounds_is_corrupt) {
  Address none = address();
  none.rails.clear();
  EXPECT_EQ(unpack_address(pack(none)).error().code(), ErrorCode::corrupt);
  Address many = address();
  while (many.rails.size() <= kMaxRails) many.rails.push_back(many.rails[0]);
  EXPECT_EQ(unpack_address(pack(many)).error().code(), ErrorCode::corrupt);
  Address short_gid = address();
  short_gid.rails[0].gid.pop_back();
  EXPECT_EQ(unpack_address(pack(short_gid)).error().code(), ErrorCode::corrupt);
  RegionKey wraps;
  wraps.keys = {1};
  wraps.base = ~0ULL - 10;
  wraps.size = 12;
  EXPECT_EQ(unpack_region_key(pack(wraps)).error().code(), ErrorCode::corrupt);
  wraps.size = 10;
  EXPECT_TRUE(unpack_region_key(pack(wraps)).ok());
  Answer answer;
  answer.end = link_end();
  answer.end.pairs.clear();
  EXPECT_EQ(unpack_greeting(pack(Greeting(answer))).error().code(), ErrorCode::corrupt);
  answer.end = link_end();
  answer.end.buffers = 1U << 30;
  EXPECT_EQ(unpack_greeting(pack(Greeting(answer))).error().code(), ErrorCode::corrupt);
}

TEST(RdmaFormats, anything_cut_short_is_corrupt) {
  const auto whole = pack(address());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(unpack_address(std::span(whole).first(size)).ok()) << size;
  }
}

TEST(RdmaFrame, sizes_are_what_came) {
  std::vector<std::byte> bytes(kFrameHeader + padded(100) + 30);
  FrameHeader header;
  header.kind = FrameKind::message;
  header.payload_size = 100;
  header.message_size = 30;
  std::memcpy(bytes.data(), &header, sizeof header);
  const ReceivedFrame frame = read_frame(bytes, 64, 128);
  ASSERT_TRUE(frame.sane);
  EXPECT_EQ(frame.payload.data(), bytes.data() + 64);
  EXPECT_EQ(frame.payload.size(), 100U);
  EXPECT_EQ(frame.message.data(), bytes.data() + 64 + 128);
  EXPECT_EQ(frame.message.size(), 30U);
  EXPECT_FALSE(read_frame(bytes, 29, 128).sane);
  EXPECT_FALSE(read_frame(bytes, 64, 99).sane);
  EXPECT_FALSE(read_frame(std::span(bytes).first(bytes.size() - 1), 64, 128).sane);
  EXPECT_FALSE(read_frame(std::span(bytes).first(63), 64, 128).sane);
  for (const std::uint32_t wrong : {7U, 1000U, ~0U}) {
    std::memcpy(bytes.data(), &wrong, sizeof wrong);
    EXPECT_FALSE(read_frame(bytes, 64, 128).sane);
  }
}

}  // namespace
}  // namespace stagewire::backends::rdma
