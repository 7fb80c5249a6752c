#include "base/printable.hpp"

namespace stagewire::base {
namespace {

constexpr unsigned char kEscape = 0x20;  // what is below are control characters
constexpr unsigned char kDelete = 0x7F;
constexpr unsigned char kC1Lead = 0xC2;  // in UTF-8 the C1 control characters are C2 80 to C2 9F
constexpr unsigned char kC1End = 0xA0;

void append_escaped(std::string& out, unsigned char byte) {
  static constexpr char kHex[] = "0123456789abcdef";
  if (byte == '\n') {
    out += "\\n";
  } else if (byte == '\t') {
    out += "\\t";
  } else {
    out += {'\\', 'x', kHex[byte >> 4U], kHex[byte & 15U]};
  }
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if (byte < kEscape || byte == kDelete) {
      append_escaped(out, byte);
    } else if (byte == kC1Lead && next >= 0x80 && next < kC1End) {
      append_escaped(out, next);
      ++i;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace stagewire::base
