#include "backends/shm/formats.hpp"

#include <gtest/gtest.h>

#include "backend/packed_struct.hpp"

namespace stagewire::backends::shm {
namespace {

TEST(ShmFormats, what_is_packed_is_unpacked) {
  Address address;
  address.boot_id = "b";
  address.network = "net:[1]";
  address.user = 1000;
  address.process = 42;
  address.socket = "stagewire-42-ab";
  EXPECT_EQ(*unpack_address(pack(address)), address);
  const RegionKey key{"s", 1, ~0ULL, 5ULL << 30, 4096, 3};
  const auto unpacked = unpack_region_key(pack(key));
  ASSERT_TRUE(unpacked.ok());
  EXPECT_EQ(unpacked->token, key.token);
  EXPECT_EQ(unpacked->size, key.size);
  const auto message = unpack_message(pack(SocketMessage(ImportAnswer{7, 2, "not found"})));
  ASSERT_TRUE(message.ok());
  EXPECT_EQ(std::get<ImportAnswer>(*message).text, "not found");
}

TEST(ShmFormats, every_truncation_is_corrupt) {
  const auto whole = pack(SocketMessage(ImportAnswer{7, 2, "not found"}));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto part = unpack_message(std::span(whole).first(size));
    ASSERT_FALSE(part.ok()) << size;
    EXPECT_EQ(part.error().code(), ErrorCode::corrupt);
  }
  auto longer = whole;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(unpack_message(longer).ok());
}

TEST(ShmFormats, an_error_code_that_nobody_knows_is_a_failure) {
  EXPECT_EQ(backend::error_of_peer(7, "x").code(), ErrorCode::too_large);
  EXPECT_EQ(backend::error_of_peer(0, "x").code(), ErrorCode::failed);
  EXPECT_EQ(backend::error_of_peer(999, "x").code(), ErrorCode::failed);
}

}  // namespace
}  // namespace stagewire::backends::shm
