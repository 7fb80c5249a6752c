#include "stagewire/descriptor.hpp"

#include <limits>
#include <optional>

#include "base/msgpack_writer.hpp"
#include "wire/field_reader.hpp"
#include "wire/messages.hpp"

namespace stagewire {
namespace {

using Packer = msgpack::packer<base::VectorSink>;

constexpr std::size_t kMaxTextSize = 1024;
constexpr std::size_t kMaxBlobCount = 32;
constexpr std::size_t kMaxBackendNameSize = 64;
constexpr std::size_t kMaxBlobSize = 8192;

void pack_blobs(Packer& packer, const std::vector<BackendBlob>& blobs) {
  packer.pack_array(static_cast<std::uint32_t>(blobs.size()));
  for (const BackendBlob& blob : blobs) {
    packer.pack_array(2);
    base::pack_text(packer, blob.backend);
    base::pack_bytes(packer, blob.bytes);
  }
}

void read_blobs(wire::FieldReader& fields, std::string_view field, std::vector<BackendBlob>& blobs) {
  blobs.resize(fields.list(field, 0, kMaxBlobCount));
  for (BackendBlob& blob : blobs) {
    fields.list(field, 2, 2);
    fields.text("backend", blob.backend, 1, kMaxBackendNameSize);
    fields.binary("bytes", blob.bytes, kMaxBlobSize);
  }
}

void read_text(wire::FieldReader& fields, std::string_view field, std::string& value) {
  fields.text(field, value, 0, kMaxTextSize);
}

constexpr const char* kMori = "mori";
// MORI's engines without RDMA say port 1 (or 0): nothing listens there.
constexpr int kMoriPortOfNobody = 1;

// The engine as MORI's engines reach it, when they do.
std::optional<EngineDesc> shown_to_mori(const EngineDesc& desc) {
  if (desc.instance_id == 0) return std::nullopt;
  for (const BackendBlob& blob : desc.addresses) {
    if (blob.backend != kMori) continue;
    auto shown = EngineDesc::unpack(blob.bytes);
    if (shown) return std::move(*shown);
  }
  return std::nullopt;
}

Status check_size(std::string_view what, std::span<const std::byte> bytes) {
  if (bytes.size() <= wire::kMaxDescriptorSize) return {};
  return base::error(ErrorCode::corrupt, what, ": ", bytes.size(), " bytes, allowed are ",
                     wire::kMaxDescriptorSize);
}

}  // namespace

std::vector<std::byte> EngineDesc::pack() const {
  std::vector<std::byte> out;
  base::VectorSink sink(out);
  Packer packer(sink);
  const std::optional<EngineDesc> shown = shown_to_mori(*this);
  packer.pack_array(shown ? 10 : 8);
  base::pack_text(packer, key);
  base::pack_text(packer, node_id);
  base::pack_text(packer, hostname);
  base::pack_text(packer, shown ? shown->host : host);
  packer.pack(shown ? shown->port : port);
  packer.pack(pid);
  packer.pack(instance_id);
  pack_blobs(packer, addresses);
  if (shown) {
    base::pack_text(packer, host);
    packer.pack(port);
  }
  return out;
}

Result<EngineDesc> EngineDesc::unpack(std::span<const std::byte> bytes) {
  if (Status status = check_size("engine descriptor", bytes); !status) return status.error();
  wire::FieldReader fields(bytes, "engine descriptor");
  EngineDesc desc;
  fields.open(0);
  read_text(fields, "key", desc.key);
  read_text(fields, "node_id", desc.node_id);
  read_text(fields, "hostname", desc.hostname);
  read_text(fields, "host", desc.host);
  fields.number("port", desc.port, 0, 65535);
  fields.number("pid", desc.pid);
  fields.number("instance_id", desc.instance_id);
  read_blobs(fields, "addresses", desc.addresses);
  read_text(fields, "control host", desc.host);
  fields.number("control port", desc.port, 0, 65535);
  if (Status status = fields.close(); !status) return status.error();
  if (desc.instance_id == 0 && desc.addresses.empty() && desc.port > kMoriPortOfNobody) {
    desc.addresses.push_back({kMori, {bytes.begin(), bytes.end()}});
  }
  return desc;
}

std::vector<std::byte> MemoryDesc::pack() const {
  std::vector<std::byte> out;
  base::VectorSink sink(out);
  Packer packer(sink);
  packer.pack_array(18);
  base::pack_text(packer, engine_key);
  packer.pack(id);
  packer.pack(device_id);
  base::pack_text(packer, device_bus_id);
  packer.pack(data);
  packer.pack(size);
  packer.pack(static_cast<std::uint32_t>(kind));
  base::pack_bytes(packer, ipc_handle);
  packer.pack(numa_node);
  packer.pack(ipc_offset);
  base::pack_bytes(packer, fabric_handle);
  packer.pack(vpod_id);
  base::pack_text(packer, vpod_ppod_id);
  packer.pack(fabric_offset);
  packer.pack(fabric_alloc_size);
  packer.pack(instance_id);
  packer.pack(static_cast<std::uint32_t>(access));
  pack_blobs(packer, remote_keys);
  return out;
}

Result<MemoryDesc> MemoryDesc::unpack(std::span<const std::byte> bytes) {
  if (Status status = check_size("memory descriptor", bytes); !status) return status.error();
  wire::FieldReader fields(bytes, "memory descriptor");
  MemoryDesc desc;
  fields.open(0);
  read_text(fields, "engine_key", desc.engine_key);
  fields.number("id", desc.id);
  fields.number("device_id", desc.device_id);
  read_text(fields, "device_bus_id", desc.device_bus_id);
  fields.number("data", desc.data);
  fields.number("size", desc.size);
  if (desc.size > std::numeric_limits<std::uint64_t>::max() - desc.data)
    fields.fail("size", "goes past the end of addresses");
  fields.enumeration("kind", desc.kind, MemoryKind::gpu);
  fields.fixed("ipc_handle", desc.ipc_handle);
  fields.number("numa_node", desc.numa_node);
  fields.number("ipc_offset", desc.ipc_offset);
  fields.fixed("fabric_handle", desc.fabric_handle);
  fields.number("vpod_id", desc.vpod_id);
  read_text(fields, "vpod_ppod_id", desc.vpod_ppod_id);
  fields.number("fabric_offset", desc.fabric_offset);
  fields.number("fabric_alloc_size", desc.fabric_alloc_size);
  fields.number("instance_id", desc.instance_id);
  fields.enumeration("access", desc.access, Access::remote_read_write);
  read_blobs(fields, "remote_keys", desc.remote_keys);
  if (Status status = fields.close(); !status) return status.error();
  if (desc.instance_id == 0 && desc.remote_keys.empty() && desc.size > 0) {
    desc.remote_keys.push_back({kMori, {bytes.begin(), bytes.end()}});
  }
  return desc;
}

}  // namespace stagewire
