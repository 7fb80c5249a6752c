#include "backends/shm/formats.hpp"

#include <msgpack.hpp>
#include <tuple>

#include "base/text.hpp"

namespace stagewire::backends::shm {
namespace {

// Each structure's fields in the order in which they are written. A field is only ever appended.
auto fields(auto&& a) requires std::is_same_v<std::remove_cvref_t<decltype(a)>, Address> {
  return std::tie(a.version, a.boot_id, a.network, a.user, a.process, a.socket);
}
auto fields(auto&& k) requires std::is_same_v<std::remove_cvref_t<decltype(k)>, RegionKey> {
  return std::tie(k.socket, k.id, k.token, k.size, k.file_offset, k.access);
}
auto fields(auto&& m) requires std::is_same_v<std::remove_cvref_t<decltype(m)>, Hello> {
  return std::tie(m.version, m.address);
}
auto fields(auto&& m) requires std::is_same_v<std::remove_cvref_t<decltype(m)>, Welcome> {
  return std::tie(m.ring_size, m.slots, m.slot_size);
}
auto fields(auto&& m) requires std::is_same_v<std::remove_cvref_t<decltype(m)>, Refusal> {
  return std::tie(m.code, m.text);
}
auto fields(auto&& m) requires std::is_same_v<std::remove_cvref_t<decltype(m)>, ImportRequest> {
  return std::tie(m.request, m.region, m.token);
}
auto fields(auto&& m) requires std::is_same_v<std::remove_cvref_t<decltype(m)>, ImportAnswer> {
  return std::tie(m.request, m.code, m.text);
}
auto fields(auto&& m) requires std::is_same_v<std::remove_cvref_t<decltype(m)>, SpaceFreed> {
  return std::tuple<>();
}

std::vector<std::byte> bytes_of(const msgpack::sbuffer& buffer) {
  const auto* data = reinterpret_cast<const std::byte*>(buffer.data());
  return {data, data + buffer.size()};
}

template <typename T>
void pack_fields(msgpack::packer<msgpack::sbuffer>& packer, const T& value) {
  std::apply([&](const auto&... field) { (packer.pack(field), ...); }, fields(value));
}

template <typename T>
constexpr std::uint32_t field_count() {
  return std::tuple_size_v<decltype(fields(std::declval<T&>()))>;
}

template <typename T>
std::vector<std::byte> pack_struct(const T& value) {
  msgpack::sbuffer buffer;
  msgpack::packer packer(buffer);
  packer.pack_array(field_count<T>());
  pack_fields(packer, value);
  return bytes_of(buffer);
}

// `skip` elements of the array come before the fields. Elements after the last known field are ignored.
template <typename T>
T convert_fields(const msgpack::object_array& array, std::uint32_t skip) {
  if (array.size < skip + field_count<T>()) throw msgpack::type_error();
  T value;
  std::uint32_t at = skip;
  std::apply([&](auto&... field) { (array.ptr[at++].convert(field), ...); }, fields(value));
  return value;
}

// Bounds what a hostile buffer can make the parser allocate.
const msgpack::unpack_limit kLimits(16, 0, 4096, 4096, 0, 2);

// Runs `convert` on the array that `bytes` hold. msgpack's exceptions end here.
template <typename T, typename Convert>
Result<T> unpack_array(std::span<const std::byte> bytes, std::string_view what, Convert convert) {
  try {
    std::size_t offset = 0;
    const msgpack::object_handle handle = msgpack::unpack(reinterpret_cast<const char*>(bytes.data()),
                                                          bytes.size(), offset, nullptr, nullptr, kLimits);
    if (offset != bytes.size()) {
      return base::error(ErrorCode::corrupt, what, ": ", bytes.size() - offset, " bytes too many");
    }
    if (handle.get().type != msgpack::type::ARRAY) throw msgpack::type_error();
    return convert(handle.get().via.array);
  } catch (const std::exception& e) {
    return base::error(ErrorCode::corrupt, what, " of ", bytes.size(), " bytes does not parse: ", e.what());
  }
}

template <std::size_t Kind = 0>
SocketMessage convert_message(std::uint32_t kind, const msgpack::object_array& array) {
  if constexpr (Kind == std::variant_size_v<SocketMessage>) {
    throw msgpack::type_error();
  } else {
    if (kind != Kind) return convert_message<Kind + 1>(kind, array);
    return convert_fields<std::variant_alternative_t<Kind, SocketMessage>>(array, 1);
  }
}

}  // namespace

std::vector<std::byte> pack(const Address& address) {
  return pack_struct(address);
}
std::vector<std::byte> pack(const RegionKey& key) {
  return pack_struct(key);
}

std::vector<std::byte> pack(const SocketMessage& message) {
  msgpack::sbuffer buffer;
  msgpack::packer packer(buffer);
  std::visit(
      [&](const auto& value) {
        packer.pack_array(1 + field_count<std::remove_cvref_t<decltype(value)>>());
        packer.pack(static_cast<std::uint32_t>(message.index()));
        pack_fields(packer, value);
      },
      message);
  return bytes_of(buffer);
}

Result<Address> unpack_address(std::span<const std::byte> bytes) {
  return unpack_array<Address>(bytes, "shm address",
                               [](const auto& array) { return convert_fields<Address>(array, 0); });
}

Result<RegionKey> unpack_region_key(std::span<const std::byte> bytes) {
  return unpack_array<RegionKey>(bytes, "shm remote key",
                                 [](const auto& array) { return convert_fields<RegionKey>(array, 0); });
}

Result<SocketMessage> unpack_message(std::span<const std::byte> bytes) {
  return unpack_array<SocketMessage>(bytes, "message on a shm socket",
                                     [](const msgpack::object_array& array) {
                                       if (array.size == 0) throw msgpack::type_error();
                                       return convert_message(array.ptr[0].as<std::uint32_t>(), array);
                                     });
}

Error error_of_peer(std::uint32_t code, const std::string& text) {
  const bool known = code >= static_cast<std::uint32_t>(ErrorCode::invalid_argument) &&
                     code <= static_cast<std::uint32_t>(ErrorCode::failed);
  return Error(known ? static_cast<ErrorCode>(code) : ErrorCode::failed, "the peer answered: " + text);
}

}  // namespace stagewire::backends::shm
