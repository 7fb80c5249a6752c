#include "backends/rdma/formats.hpp"

#include "backend/packed_struct.hpp"

namespace stagewire::backends::rdma {

// Each structure's fields in the order in which they are written.
auto fields(auto&& r) requires std::is_same_v<std::remove_cvref_t<decltype(r)>, Rail> {
  return std::tie(r.name, r.ethernet, r.gid, r.lid, r.mtu, r.greeter);
}
auto fields(auto&& a) requires std::is_same_v<std::remove_cvref_t<decltype(a)>, Address> {
  return std::tie(a.version, a.instance, a.secret, a.rails);
}
auto fields(auto&& k) requires std::is_same_v<std::remove_cvref_t<decltype(k)>, RegionKey> {
  return std::tie(k.instance, k.id, k.token, k.base, k.size, k.access, k.keys);
}
auto fields(auto&& e) requires std::is_same_v<std::remove_cvref_t<decltype(e)>, LinkEnd> {
  return std::tie(e.link, e.pairs, e.sequence, e.buffers, e.message_size, e.payload_size, e.payloads, e.reads,
                  e.frames_received, e.frames_freed, e.payloads_freed);
}
auto fields(auto&& c) requires std::is_same_v<std::remove_cvref_t<decltype(c)>, Call> {
  return std::tie(c.version, c.secret, c.attempt, c.rails, c.caller_rails, c.address, c.end);
}
auto fields(auto&& a) requires std::is_same_v<std::remove_cvref_t<decltype(a)>, Answer> {
  return std::tie(a.link, a.attempt, a.end);
}
auto fields(auto&& r) requires std::is_same_v<std::remove_cvref_t<decltype(r)>, Refusal> {
  return std::tie(r.link, r.attempt, r.code, r.text);
}
auto fields(auto&& f) requires std::is_same_v<std::remove_cvref_t<decltype(f)>, Farewell> {
  return std::tie(f.link);
}
auto fields(auto&& p) requires std::is_same_v<std::remove_cvref_t<decltype(p)>, Probe> {
  return std::tie(p.link, p.rail, p.caller_rail);
}
auto fields(auto&& r) requires std::is_same_v<std::remove_cvref_t<decltype(r)>, Reached> {
  return std::tie(r.link);
}

}  // namespace stagewire::backends::rdma

// Structures that lie in others.
namespace msgpack {
MSGPACK_API_VERSION_NAMESPACE(MSGPACK_DEFAULT_API_NS) {
  namespace adaptor {

  template <typename T>
  concept RdmaPart = std::is_same_v<T, stagewire::backends::rdma::Rail> ||
      std::is_same_v<T, stagewire::backends::rdma::LinkEnd>;

  template <RdmaPart T>
  struct pack<T> {
    template <typename Stream>
    packer<Stream>& operator()(packer<Stream>& out, const T& value) const {
      out.pack_array(stagewire::backend::field_count<T>());
      stagewire::backend::pack_fields(out, value);
      return out;
    }
  };

  template <RdmaPart T>
  struct convert<T> {
    const msgpack::object& operator()(const msgpack::object& object, T& value) const {
      if (object.type != msgpack::type::ARRAY) throw msgpack::type_error();
      value = stagewire::backend::convert_fields<T>(object.via.array, 0);
      return object;
    }
  };

  }  // namespace adaptor
}
}  // namespace msgpack

namespace stagewire::backends::rdma {
namespace {

bool sane(const LinkEnd& end) {
  constexpr std::uint32_t kMost = 1U << 20;
  return !end.pairs.empty() && end.pairs.size() <= kMaxQueuePairs && end.buffers > 0 &&
         end.buffers <= kMost && end.message_size <= kMost && end.payload_size <= kMost &&
         end.payloads <= end.buffers;
}

Error out_of_bounds(std::string_view what) {
  return base::error(ErrorCode::corrupt, what, " names sizes or counts out of bounds");
}

}  // namespace

std::vector<std::byte> pack(const Address& address) {
  return backend::pack_struct(address);
}
std::vector<std::byte> pack(const RegionKey& key) {
  return backend::pack_struct(key);
}
std::vector<std::byte> pack(const Greeting& greeting) {
  return backend::pack_variant(greeting);
}

Result<Address> unpack_address(std::span<const std::byte> bytes) {
  auto address = backend::unpack_struct<Address>(bytes, "rdma address");
  if (!address) return address;
  if (address->rails.empty() || address->rails.size() > kMaxRails) return out_of_bounds("rdma address");
  for (const Rail& rail : address->rails) {
    if (rail.gid.size() != 16) return out_of_bounds("rdma address");
  }
  return address;
}

Result<RegionKey> unpack_region_key(std::span<const std::byte> bytes) {
  auto key = backend::unpack_struct<RegionKey>(bytes, "rdma remote key");
  if (!key) return key;
  const bool fits = key->size <= ~key->base;
  if (key->keys.empty() || key->keys.size() > kMaxRails || key->access > 3 || !fits) {
    return out_of_bounds("rdma remote key");
  }
  return key;
}

Result<Greeting> unpack_greeting(std::span<const std::byte> bytes) {
  auto greeting = backend::unpack_variant<Greeting>(bytes, "rdma greeting");
  if (!greeting) return greeting;
  const auto* call = std::get_if<Call>(&*greeting);
  const auto* answer = std::get_if<Answer>(&*greeting);
  if ((call != nullptr && !sane(call->end)) || (answer != nullptr && !sane(answer->end))) {
    return out_of_bounds("rdma greeting");
  }
  return greeting;
}

}  // namespace stagewire::backends::rdma
