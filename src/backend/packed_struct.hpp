// Structures as msgpack arrays: what backends put into addresses, remote keys and messages of their own.
//
// A structure says which of its members travel, in which order, by a function fields(structure) beside it
// that returns std::tie() of them. A field is only ever appended: readers ignore what comes after the last
// that they know.
#pragma once

#include <cstddef>
#include <cstdint>
#include <msgpack.hpp>
#include <span>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include "base/text.hpp"

namespace stagewire::backend {

template <typename T>
constexpr std::uint32_t field_count() {
  return std::tuple_size_v<decltype(fields(std::declval<T&>()))>;
}

template <typename T>
void pack_fields(msgpack::packer<msgpack::sbuffer>& packer, const T& value) {
  std::apply([&](const auto&... field) { (packer.pack(field), ...); }, fields(value));
}

inline std::vector<std::byte> packed_bytes(const msgpack::sbuffer& buffer) {
  const auto* data = reinterpret_cast<const std::byte*>(buffer.data());
  return {data, data + buffer.size()};
}

template <typename T>
std::vector<std::byte> pack_struct(const T& value) {
  msgpack::sbuffer buffer;
  msgpack::packer packer(buffer);
  packer.pack_array(field_count<T>());
  pack_fields(packer, value);
  return packed_bytes(buffer);
}

/// The number of the alternative, then its fields.
template <typename... Kinds>
std::vector<std::byte> pack_variant(const std::variant<Kinds...>& message) {
  msgpack::sbuffer buffer;
  msgpack::packer packer(buffer);
  std::visit(
      [&](const auto& value) {
        packer.pack_array(1 + field_count<std::remove_cvref_t<decltype(value)>>());
        packer.pack(static_cast<std::uint32_t>(message.index()));
        pack_fields(packer, value);
      },
      message);
  return packed_bytes(buffer);
}

/// `skip` elements of the array come before the fields. Throws, as msgpack does.
template <typename T>
T convert_fields(const msgpack::object_array& array, std::uint32_t skip) {
  if (array.size < skip + field_count<T>()) throw msgpack::type_error();
  T value;
  std::uint32_t at = skip;
  std::apply([&](auto&... field) { (array.ptr[at++].convert(field), ...); }, fields(value));
  return value;
}

/// Runs `convert` on the array that `bytes` hold. msgpack's exceptions end
/// here: `corrupt` with `what` in front.
template <typename T, typename Convert>
Result<T> unpack_array(std::span<const std::byte> bytes, std::string_view what, Convert convert) {
  // Bounds what a hostile buffer can make the parser allocate.
  static const msgpack::unpack_limit limits(32, 0, 4096, 4096, 0, 3);
  try {
    std::size_t offset = 0;
    const msgpack::object_handle handle = msgpack::unpack(reinterpret_cast<const char*>(bytes.data()),
                                                          bytes.size(), offset, nullptr, nullptr, limits);
    if (offset != bytes.size()) {
      return base::error(ErrorCode::corrupt, what, ": ", bytes.size() - offset, " bytes too many");
    }
    if (handle.get().type != msgpack::type::ARRAY) throw msgpack::type_error();
    return convert(handle.get().via.array);
  } catch (const std::exception& e) {
    return base::error(ErrorCode::corrupt, what, " of ", bytes.size(), " bytes does not parse: ", e.what());
  }
}

template <typename T>
Result<T> unpack_struct(std::span<const std::byte> bytes, std::string_view what) {
  return unpack_array<T>(bytes, what, [](const auto& array) { return convert_fields<T>(array, 0); });
}

template <typename Variant, std::size_t Kind = 0>
Variant convert_variant(std::uint32_t kind, const msgpack::object_array& array) {
  if constexpr (Kind == std::variant_size_v<Variant>) {
    throw msgpack::type_error();
  } else {
    if (kind != Kind) return convert_variant<Variant, Kind + 1>(kind, array);
    return convert_fields<std::variant_alternative_t<Kind, Variant>>(array, 1);
  }
}

template <typename Variant>
Result<Variant> unpack_variant(std::span<const std::byte> bytes, std::string_view what) {
  return unpack_array<Variant>(bytes, what, [](const msgpack::object_array& array) {
    if (array.size == 0) throw msgpack::type_error();
    return convert_variant<Variant>(array.ptr[0].as<std::uint32_t>(), array);
  });
}

/// An error that a peer sent; an unknown code becomes `failed`.
inline Error error_of_peer(std::uint32_t code, std::string_view text) {
  const bool known = code >= static_cast<std::uint32_t>(ErrorCode::invalid_argument) &&
                     code <= static_cast<std::uint32_t>(ErrorCode::failed);
  return base::error(known ? static_cast<ErrorCode>(code) : ErrorCode::failed, "the peer answered: ", text);
}

}  // namespace stagewire::backend
