#include "backends/shm/copy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace stagewire::backends::shm {
namespace {

TEST(Copy, R04_streaming_copies_exactly_what_was_asked_for_at_any_alignment) {
  constexpr std::size_t kRoom = 2048;
  std::vector<std::byte> source(kRoom);
  for (std::size_t i = 0; i < kRoom; ++i) source[i] = static_cast<std::byte>(i * 7 + i / 256);
  for (const std::size_t size : std::vector<std::size_t>{0, 1, 31, 32, 127, 128, 129, 160, 255, 1000}) {
    for (std::size_t to = 0; to < 65; to += 3) {
      for (std::size_t from = 0; from < 33; from += 5) {
        std::vector<std::byte> target(kRoom, std::byte{0xee});
        std::vector<std::byte> wanted = target;
        std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(from), size,
                    wanted.begin() + static_cast<std::ptrdiff_t>(to));
        copy_streaming(target.data() + to, source.data() + from, size);
        ASSERT_EQ(target, wanted) << size << " bytes to " << to << " from " << from;
      }
    }
  }
}

TEST(Copy, both_kinds_give_the_same) {
  const std::size_t size = streaming_threshold();
  std::vector<std::byte> source(size);
  for (std::size_t i = 0; i < size; i += 61) source[i] = static_cast<std::byte>(i * 31 + i / 999);
  for (const std::size_t whole : {size - 1, size}) {
    std::vector<std::byte> target(size);
    copy_bytes(target.data(), source.data(), size, whole);
    EXPECT_EQ(std::memcmp(target.data(), source.data(), size), 0) << whole;
  }
}

}  // namespace
}  // namespace stagewire::backends::shm
