#include "backends/rdma/mori/messages.hpp"

#include <cstring>

#include "base/msgpack_writer.hpp"
#include "base/text.hpp"
#include "wire/field_reader.hpp"

namespace stagewire::backends::rdma::mori {
namespace {

using Packer = msgpack::packer<base::VectorSink>;

constexpr std::size_t kMaxKey = 1024;

enum class Kind : std::uint8_t { register_endpoint = 0, ask_region = 1 };

void pack(Packer& packer, const Place& place) {
  packer.pack_array(3);
  packer.pack(place.device);
  packer.pack(static_cast<std::uint32_t>(place.kind));
  packer.pack(place.numa_node);
}

void read(wire::FieldReader& fields, Place& place) {
  fields.list("place", 3, 3);
  fields.number("place's device", place.device);
  fields.enumeration("place's kind", place.kind, MemoryKind::gpu);
  fields.number("place's numa_node", place.numa_node);
}

void pack(Packer& packer, const EndpointHandle& endpoint) {
  packer.pack_array(5);
  packer.pack(endpoint.sequence);
  packer.pack(endpoint.number);
  packer.pack(endpoint.port);
  packer.pack_array(1);
  packer.pack(endpoint.lid);
  packer.pack_array(2);
  base::pack_bytes(packer, endpoint.gid);
  base::pack_bytes(packer, endpoint.address);
}

void read(wire::FieldReader& fields, EndpointHandle& endpoint) {
  fields.list("endpoint", 5, 5);
  fields.number("endpoint's sequence", endpoint.sequence);
  fields.number("endpoint's number", endpoint.number, 0U, 0xffffffU);
  fields.number("endpoint's port", endpoint.port);
  fields.list("endpoint's ib", 1, 1);
  fields.number("endpoint's lid", endpoint.lid);
  fields.list("endpoint's eth", 2, 2);
  fields.fixed("endpoint's gid", endpoint.gid);
  fields.fixed("endpoint's address", endpoint.address);
}

void pack(Packer& packer, const RegisterEndpoint& m) {
  packer.pack_array(6);
  base::pack_text(packer, m.engine_key);
  packer.pack_array(2);
  pack(packer, m.places.local);
  pack(packer, m.places.remote);
  packer.pack(m.device);
  pack(packer, m.endpoint);
  packer.pack(m.nic_rank);
  packer.pack(m.rail);
}

void pack(Packer& packer, const AskRegion& m) {
  packer.pack_array(4);
  base::pack_text(packer, m.engine_key);
  packer.pack(m.device);
  packer.pack(m.id);
  packer.pack_array(4);
  packer.pack(m.address);
  packer.pack(m.local_key);
  packer.pack(m.remote_key);
  packer.pack(m.size);
}

Result<Message> decode_register(std::span<const std::byte> body) {
  wire::FieldReader fields(body, "MORI-IO's RegEndpoint");
  RegisterEndpoint m;
  fields.open(4);
  fields.text("ekey", m.engine_key, 1, kMaxKey);
  fields.list("topo", 2, 2);
  read(fields, m.places.local);
  read(fields, m.places.remote);
  fields.number("devId", m.device);
  read(fields, m.endpoint);
  fields.number("nicRank", m.nic_rank);
  fields.number("railId", m.rail);
  if (Status ok = fields.close(); !ok) return ok.error();
  return Message(std::move(m));
}

Result<Message> decode_ask(std::span<const std::byte> body) {
  wire::FieldReader fields(body, "MORI-IO's AskMemoryRegion");
  AskRegion m;
  fields.open(4);
  fields.text("ekey", m.engine_key, 1, kMaxKey);
  fields.number("devId", m.device);
  fields.number("id", m.id);
  fields.list("mr", 4, 4);
  fields.number("mr's addr", m.address);
  fields.number("mr's lkey", m.local_key);
  fields.number("mr's rkey", m.remote_key);
  fields.number("mr's length", m.size);
  if (Status ok = fields.close(); !ok) return ok.error();
  return Message(std::move(m));
}

}  // namespace

std::vector<std::byte> encode(const Message& message) {
  std::vector<std::byte> frame(kHeaderSize);
  base::VectorSink sink(frame);
  Packer packer(sink);
  std::visit([&](const auto& m) { pack(packer, m); }, message);
  const std::size_t size = frame.size() - kHeaderSize;
  frame[0] = static_cast<std::byte>(message.index());
  for (std::size_t i = 0; i < 4; ++i) frame[1 + i] = static_cast<std::byte>(size >> (24 - 8 * i));
  return frame;
}

Result<std::size_t> body_size(std::span<const std::byte> header) {
  const auto kind = std::to_integer<unsigned>(header[0]);
  std::size_t size = 0;
  for (std::size_t i = 1; i < kHeaderSize; ++i) size = size << 8 | std::to_integer<std::size_t>(header[i]);
  if (kind > static_cast<unsigned>(Kind::ask_region)) {
    return base::error(ErrorCode::corrupt, "a message of MORI-IO's kind ", kind, ", known are 0 and 1");
  }
  if (size > kMostExpected) {
    return base::error(ErrorCode::corrupt, "a message of MORI-IO's kind ", kind, " of ", size,
                       " bytes, at most ", kMostExpected, " are taken");
  }
  return size;
}

Result<Message> decode(std::span<const std::byte> frame) {
  if (frame.size() < kHeaderSize)
    return base::error(ErrorCode::corrupt, "a frame of MORI-IO's of ", frame.size(), " bytes");
  const auto size = body_size(frame.first(kHeaderSize));
  if (!size) return size.error();
  const auto body = frame.subspan(kHeaderSize);
  if (body.size() != *size) {
    return base::error(ErrorCode::corrupt, "a frame of MORI-IO's has ", body.size(), " bytes, not ", *size);
  }
  return frame[0] == std::byte{0} ? decode_register(body) : decode_ask(body);
}

std::array<std::byte, kNotificationSize> encode(const Notification& notification) {
  std::array<std::byte, kNotificationSize> bytes;
  std::memcpy(bytes.data(), &notification.transfer, 8);
  std::memcpy(bytes.data() + 8, &notification.index, 4);
  std::memcpy(bytes.data() + 12, &notification.count, 4);
  return bytes;
}

Result<Notification> decode_notification(std::span<const std::byte> bytes) {
  if (bytes.size() != kNotificationSize) {
    return base::error(ErrorCode::corrupt, "a notification of ", bytes.size(), " bytes, MORI-IO's have ",
                       kNotificationSize);
  }
  Notification n;
  std::memcpy(&n.transfer, bytes.data(), 8);
  std::memcpy(&n.index, bytes.data() + 8, 4);
  std::memcpy(&n.count, bytes.data() + 12, 4);
  if (n.count >= 1 && n.count <= kMostPairs && n.index >= 0 && n.index < n.count) return n;
  return base::error(ErrorCode::corrupt, "notification ", n.index, " of ", n.count, " for transfer ",
                     n.transfer);
}

}  // namespace stagewire::backends::rdma::mori
