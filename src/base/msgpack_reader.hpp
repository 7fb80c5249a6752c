// Reads msgpack from bytes that nobody has checked, one token at a time.
//
// msgpack-cxx writes for us (msgpack_writer.hpp) but does not read: its visitor is not told where it is, and
// its unpack() builds a tree on the heap before anything has been validated. Here nothing is allocated, every
// token knows its offset, and the two are compared on every input of the fuzz target.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/text.hpp"

namespace stagewire::base {

enum class MsgpackType : std::uint8_t {
  nil,
  boolean,
  positive,
  negative,
  real,
  string,
  binary,
  array,
  map,
  extension
};

/// "a string", for messages.
std::string_view to_string(MsgpackType type);

/// One value, or the head of an array or a map, whose elements follow as tokens of their own.
struct MsgpackToken {
  MsgpackType type = MsgpackType::nil;
  std::uint64_t number = 0;   ///< boolean: 0 or 1; positive; array and map: count of elements or entries
  std::int64_t negative = 0;  ///< for type negative, below zero
  double real = 0;            ///< float32 is widened
  std::span<const std::byte> bytes;  ///< string, binary, extension (without its type); points into the input
  std::size_t offset = 0;            ///< of the token's first byte

  std::string_view text() const { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
};

class MsgpackReader {
 public:
  /// `bytes` must outlive the reader and its tokens.
  explicit MsgpackReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  /// False when the input ends inside the token or the byte begins none: why() says which. The reader stays
  /// there.
  [[nodiscard]] bool next(MsgpackToken& token);
  /// Reads past `count` whole values, however deep, without recursion.
  [[nodiscard]] bool skip(std::uint64_t count);

  std::size_t offset() const { return offset_; }
  std::size_t left() const { return bytes_.size() - offset_; }
  /// Why next() or skip() answered false.
  Error why() const;

 private:
  bool read_number(std::size_t width, std::uint64_t& value);
  bool read_sized(MsgpackToken& token, MsgpackType type, std::size_t width);
  bool read_counted(MsgpackToken& token, MsgpackType type, std::size_t width);
  bool read_signed(MsgpackToken& token, std::size_t width);
  bool read_bytes(MsgpackToken& token, MsgpackType type, std::uint64_t size);
  bool read_headed(MsgpackToken& token, std::uint8_t head);

  std::span<const std::byte> bytes_;
  std::size_t offset_ = 0;
};

}  // namespace stagewire::base
