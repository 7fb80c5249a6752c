#include "base/msgpack_reader.hpp"

#include <bit>

namespace stagewire::base {

std::string_view to_string(MsgpackType type) {
  switch (type) {
    case MsgpackType::nil:
      return "nil";
    case MsgpackType::boolean:
      return "a bool";
    case MsgpackType::positive:
      return "an integer";
    case MsgpackType::negative:
      return "a negative integer";
    case MsgpackType::real:
      return "a float";
    case MsgpackType::string:
      return "a string";
    case MsgpackType::binary:
      return "bytes";
    case MsgpackType::array:
      return "an array";
    case MsgpackType::map:
      return "a map";
    case MsgpackType::extension:
      return "an extension";
  }
  return "nothing known";
}

bool MsgpackReader::next(MsgpackToken& token) {
  if (left() == 0) return false;
  const std::size_t start = offset_;
  const auto head = std::to_integer<std::uint8_t>(bytes_[offset_++]);
  token.offset = start;
  bool good = true;
  if (head <= 0x7f) {
    token.type = MsgpackType::positive;
    token.number = head;
  } else if (head <= 0x8f) {
    token.type = MsgpackType::map;
    token.number = head & 0x0fU;
  } else if (head <= 0x9f) {
    token.type = MsgpackType::array;
    token.number = head & 0x0fU;
  } else if (head <= 0xbf) {
    good = read_bytes(token, MsgpackType::string, head & 0x1fU);
  } else if (head >= 0xe0) {
    token.type = MsgpackType::negative;
    token.negative = static_cast<std::int8_t>(head);
  } else {
    good = read_headed(token, head);
  }
  if (!good) offset_ = start;
  return good;
}

bool MsgpackReader::read_headed(MsgpackToken& token, std::uint8_t head) {
  switch (head) {
    case 0xc0:
      token.type = MsgpackType::nil;
      return true;
    case 0xc2:
    case 0xc3:
      token.type = MsgpackType::boolean;
      token.number = head & 1U;
      return true;
    case 0xc4:
      return read_sized(token, MsgpackType::binary, 1);
    case 0xc5:
      return read_sized(token, MsgpackType::binary, 2);
    case 0xc6:
      return read_sized(token, MsgpackType::binary, 4);
    case 0xc7:
      return read_sized(token, MsgpackType::extension, 1);
    case 0xc8:
      return read_sized(token, MsgpackType::extension, 2);
    case 0xc9:
      return read_sized(token, MsgpackType::extension, 4);
    case 0xca:
      token.type = MsgpackType::real;
      if (!read_number(4, token.number)) return false;
      token.real = static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(token.number)));
      return true;
    case 0xcb:
      token.type = MsgpackType::real;
      if (!read_number(8, token.number)) return false;
      token.real = std::bit_cast<double>(token.number);
      return true;
    case 0xcc:
    case 0xcd:
    case 0xce:
    case 0xcf:
      token.type = MsgpackType::positive;
      return read_number(std::size_t{1} << (head - 0xccU), token.number);
    case 0xd0:
    case 0xd1:
    case 0xd2:
    case 0xd3:
      return read_signed(token, std::size_t{1} << (head - 0xd0U));
    case 0xd4:
    case 0xd5:
    case 0xd6:
    case 0xd7:
    case 0xd8:
      return read_bytes(token, MsgpackType::extension, 1 + (std::uint64_t{1} << (head - 0xd4U)));
    case 0xd9:
      return read_sized(token, MsgpackType::string, 1);
    case 0xda:
      return read_sized(token, MsgpackType::string, 2);
    case 0xdb:
      return read_sized(token, MsgpackType::string, 4);
    case 0xdc:
      return read_counted(token, MsgpackType::array, 2);
    case 0xdd:
      return read_counted(token, MsgpackType::array, 4);
    case 0xde:
      return read_counted(token, MsgpackType::map, 2);
    case 0xdf:
      return read_counted(token, MsgpackType::map, 4);
    default:
      return false;  // 0xc1, which msgpack never uses
  }
}

bool MsgpackReader::read_number(std::size_t width, std::uint64_t& value) {
  if (left() < width) return false;
  value = 0;
  for (std::size_t i = 0; i < width; ++i)
    value = value << 8 | std::to_integer<std::uint64_t>(bytes_[offset_++]);
  return true;
}

bool MsgpackReader::read_signed(MsgpackToken& token, std::size_t width) {
  std::uint64_t raw = 0;
  if (!read_number(width, raw)) return false;
  const unsigned unused = static_cast<unsigned>(64 - 8 * width);
  token.negative = static_cast<std::int64_t>(raw << unused) >> unused;  // sign extension
  token.type = token.negative < 0 ? MsgpackType::negative : MsgpackType::positive;
  token.number = raw;
  return true;
}

bool MsgpackReader::read_counted(MsgpackToken& token, MsgpackType type, std::size_t width) {
  token.type = type;
  return read_number(width, token.number);
}

bool MsgpackReader::read_sized(MsgpackToken& token, MsgpackType type, std::size_t width) {
  std::uint64_t size = 0;
  if (!read_number(width, size)) return false;
  return read_bytes(token, type, size + (type == MsgpackType::extension ? 1 : 0));
}

bool MsgpackReader::read_bytes(MsgpackToken& token, MsgpackType type, std::uint64_t size) {
  if (left() < size) return false;
  token.type = type;
  token.bytes = bytes_.subspan(offset_, static_cast<std::size_t>(size));
  offset_ += static_cast<std::size_t>(size);
  if (type == MsgpackType::extension) token.bytes = token.bytes.subspan(1);
  return true;
}

bool MsgpackReader::skip(std::uint64_t count) {
  MsgpackToken token;
  // Each token takes a byte and owes at most 2^33 more, so the sum cannot wrap.
  for (std::uint64_t owed = count; owed > 0; --owed) {
    if (!next(token)) return false;
    if (token.type == MsgpackType::array) owed += token.number;
    if (token.type == MsgpackType::map) owed += 2 * token.number;
  }
  return true;
}

Error MsgpackReader::why() const {
  if (left() > 0 && bytes_[offset_] == std::byte{0xc1}) {
    return error(ErrorCode::corrupt, "byte c1 at offset ", offset_, " begins no msgpack value");
  }
  return error(ErrorCode::corrupt, "cut off: the value at offset ", offset_, " goes past the end at ",
               bytes_.size());
}

}  // namespace stagewire::base
