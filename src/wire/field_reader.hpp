// Reads the fields of one msgpack array in order, with limits. A field that the array is too short for keeps
// its value. The first error sticks: after it every read leaves its variable alone, and close() says which
// field of what was wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/msgpack_reader.hpp"
#include "stagewire/result.hpp"

namespace stagewire::wire {

class FieldReader {
 public:
  /// `what` names the array in messages and must outlive the reader.
  FieldReader(std::span<const std::byte> bytes, std::string_view what) : reader_(bytes), what_(what) {}

  /// A more exact name, once it is known.
  void rename(std::string_view what) { what_ = what; }
  /// Opens the array that holds the fields.
  void open(std::size_t least_count);
  /// Asks for more elements than open() did, now that the kind of array is known.
  void need(std::size_t fields_left);
  bool ok() const { return !error_.has_value(); }

  /// A view into the bytes, or a copy.
  void text(std::string_view field, std::string_view& value, std::size_t least, std::size_t most);
  void text(std::string_view field, std::string& value, std::size_t least, std::size_t most) {
    std::string_view view = value;
    text(field, view, least, most);
    if (view.data() != value.data()) value = view;
  }
  void binary(std::string_view field, std::vector<std::byte>& value, std::size_t most);
  void fixed(std::string_view field, std::span<std::byte> value);
  void flag(std::string_view field, bool& value);
  template <typename Integer>
  void number(std::string_view field, Integer& value, Integer least = std::numeric_limits<Integer>::min(),
              Integer most = std::numeric_limits<Integer>::max());
  template <typename Enum>
  void enumeration(std::string_view field, Enum& value, Enum last) {
    auto raw = static_cast<std::uint32_t>(value);
    number(field, raw, std::uint32_t{0}, static_cast<std::uint32_t>(last));
    value = static_cast<Enum>(raw);
  }
  /// A field that is an array: its elements are read by the same functions, and do not count as fields.
  std::size_t list(std::string_view field, std::size_t least, std::size_t most);

  /// Whatever else is wrong with a value.
  void fail(std::string_view field, std::string_view problem);
  /// Skips the fields that are not known here; nothing may follow the array.
  Status close();

 private:
  bool take(std::string_view field, base::MsgpackToken& token);
  bool take(std::string_view field, base::MsgpackType type, base::MsgpackToken& token);
  bool in_size(std::string_view field, std::size_t size, std::size_t least, std::size_t most);
  void out_of_range(std::string_view field, const base::MsgpackToken& token);
  void wrong_type(std::string_view field, const base::MsgpackToken& token, std::string_view expected);

  base::MsgpackReader reader_;
  std::string_view what_;
  std::size_t fields_left_ = 0;
  std::size_t elements_left_ = 0;
  std::optional<Error> error_;
};

template <typename Integer>
void FieldReader::number(std::string_view field, Integer& value, Integer least, Integer most) {
  base::MsgpackToken token;
  if (!take(field, token)) return;
  if (token.type == base::MsgpackType::positive) {
    if (!std::in_range<Integer>(token.number)) return out_of_range(field, token);
    const auto number = static_cast<Integer>(token.number);
    if (number < least || number > most) return out_of_range(field, token);
    value = number;
  } else if (token.type == base::MsgpackType::negative) {
    if (!std::in_range<Integer>(token.negative)) return out_of_range(field, token);
    const auto number = static_cast<Integer>(token.negative);
    if (number < least || number > most) return out_of_range(field, token);
    value = number;
  } else {
    wrong_type(field, token, "an integer");
  }
}

}  // namespace stagewire::wire
