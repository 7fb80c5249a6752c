#include "base/utf8.hpp"

#include <cstdint>
#include <cstring>

namespace stagewire::base {
namespace {

bool is_tail(char c) {
  return (static_cast<std::uint8_t>(c) & 0xc0U) == 0x80U;
}

// Bytes of the character that begins the text, 0 when none does.
std::size_t character_size(std::string_view text) {
  const auto first = static_cast<std::uint8_t>(text[0]);
  const auto second = text.size() > 1 ? static_cast<std::uint8_t>(text[1]) : std::uint8_t{0};
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return 2;
  if (first == 0xe0) return second >= 0xa0 ? 3 : 0;  // shorter forms exist below
  if (first == 0xed) return second <= 0x9f ? 3 : 0;  // surrogates
  if (first >= 0xe1 && first <= 0xef) return 3;
  if (first == 0xf0) return second >= 0x90 ? 4 : 0;
  if (first == 0xf4) return second <= 0x8f ? 4 : 0;  // above U+10FFFF
  if (first >= 0xf1 && first <= 0xf3) return 4;
  return 0;
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    std::uint64_t eight = 0;
    if (text.size() >= sizeof eight) {
      std::memcpy(&eight, text.data(), sizeof eight);
      if ((eight & 0x8080808080808080U) == 0) {
        text.remove_prefix(sizeof eight);
        continue;
      }
    }
    const std::size_t size = character_size(text);
    if (size == 0 || size > text.size()) return false;
    for (std::size_t i = 1; i < size; ++i) {
      if (!is_tail(text[i])) return false;
    }
    text.remove_prefix(size);
  }
  return true;
}

}  // namespace stagewire::base
