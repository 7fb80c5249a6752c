// Bytes written as hexadecimal digits, for golden tests. Blanks between digits are ignored.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stagewire::testing {

inline std::vector<std::byte> from_hex(std::string_view digits) {
  std::vector<std::byte> bytes;
  int high = -1;
  for (const char c : digits) {
    if (c == ' ' || c == '\n') continue;
    const int value = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (value < 0) {
      ADD_FAILURE() << "not a hexadecimal digit: " << c;
      return {};
    }
    if (high >= 0) bytes.push_back(static_cast<std::byte>(high * 16 + value));
    high = high >= 0 ? -1 : value;
  }
  EXPECT_LT(high, 0) << "an odd number of digits";
  return bytes;
}

inline std::string to_hex(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::byte b : bytes) {
    text.push_back(kDigits[std::to_integer<std::uint8_t>(b) >> 4U]);
    text.push_back(kDigits[std::to_integer<std::uint8_t>(b) & 15U]);
  }
  return text;
}

}  // namespace stagewire::testing
