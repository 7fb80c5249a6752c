#include "base/secret_key.hpp"

#include <algorithm>
#include <cstdint>

#include "base/text.hpp"

namespace stagewire::base {
namespace {

constexpr std::size_t kHexSize = 64;
constexpr std::size_t kZ85Size = 40;
// ZeroMQ RFC 32: each 4 bytes, big-endian, are 5 digits to the base 85.
constexpr std::string_view kZ85Digits =
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

std::uint32_t hex_value(char digit) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const char lower = digit >= 'A' && digit <= 'F' ? static_cast<char>(digit - 'A' + 'a') : digit;
  return static_cast<std::uint32_t>(kDigits.find(lower));
}

bool all_in(std::string_view text, std::string_view characters) {
  return text.find_first_not_of(characters) == std::string_view::npos;
}

}  // namespace

Result<std::string> z85_secret_key(std::string_view key) {
  if (key.size() == kZ85Size && all_in(key, kZ85Digits)) return std::string(key);
  if (key.size() != kHexSize || !all_in(key, "0123456789abcdefABCDEF")) {
    return base::error(ErrorCode::invalid_argument, "the secret key is neither ", kHexSize,
                       " hexadecimal digits nor ", kZ85Size, " characters of Z85 (it has ", key.size(),
                       " characters); `openssl rand -hex 32` makes one");
  }
  std::string result;
  for (std::size_t i = 0; i < kHexSize; i += 8) {
    std::uint32_t word = 0;
    for (const char digit : key.substr(i, 8)) word = word * 16 + hex_value(digit);
    std::string digits(5, '0');
    for (std::size_t place = digits.size(); place-- > 0; word /= 85) digits[place] = kZ85Digits[word % 85];
    result += digits;
  }
  return result;
}

}  // namespace stagewire::base
