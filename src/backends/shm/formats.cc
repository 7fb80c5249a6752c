#include "backends/shm/formats.hpp"

#include "backend/packed_struct.hpp"

namespace stagewire::backends::shm {

// Each structure's fields in the order in which they are written.
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

std::vector<std::byte> pack(const Address& address) {
  return backend::pack_struct(address);
}
std::vector<std::byte> pack(const RegionKey& key) {
  return backend::pack_struct(key);
}
std::vector<std::byte> pack(const SocketMessage& message) {
  return backend::pack_variant(message);
}

Result<Address> unpack_address(std::span<const std::byte> bytes) {
  return backend::unpack_struct<Address>(bytes, "shm address");
}
Result<RegionKey> unpack_region_key(std::span<const std::byte> bytes) {
  return backend::unpack_struct<RegionKey>(bytes, "shm remote key");
}
Result<SocketMessage> unpack_message(std::span<const std::byte> bytes) {
  return backend::unpack_variant<SocketMessage>(bytes, "message on a shm socket");
}

}  // namespace stagewire::backends::shm
