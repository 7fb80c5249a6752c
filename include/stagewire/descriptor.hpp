// Descriptors: what one engine tells another about itself and about its memory. Plain values, copied freely.
//
// pack() writes MORI-IO's form: a msgpack array of the fields in MORI's order, ours appended after its last.
// A MORI engine ignores the appended ones; unpack() accepts an array that ends early (missing fields keep
// their defaults) and ignores elements after the last it knows. docs/protocol.md has the table.
//
// What MORI's engines need of each other is in their own fields. So the backend that speaks to them, `mori`,
// has for its address an EngineDesc in their form, and for its remote key a MemoryDesc in their form: pack()
// shows MORI's engines the host and port of that address, and unpack() of bytes that one of them wrote makes
// these bytes the address, or the remote key, for `mori`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "stagewire/memory.hpp"
#include "stagewire/result.hpp"

namespace stagewire {

/// One backend's opaque bytes: an address in an EngineDesc, a remote key in a MemoryDesc.
struct BackendBlob {
  std::string backend;
  std::vector<std::byte> bytes;
  bool operator==(const BackendBlob&) const = default;
};

struct EngineDesc {
  std::string key;      ///< unique name of the engine
  std::string node_id;  ///< MORI_NODE_ID, else the kernel's boot id
  std::string hostname;
  std::string host;  ///< where its control plane listens, empty when it does not
  int port = 0;
  int pid = 0;
  // Appended by stagewire:
  std::uint64_t instance_id = 0;       ///< random for each engine object; 0 = not a stagewire engine
  std::vector<BackendBlob> addresses;  ///< in the engine's order of preference

  bool operator==(const EngineDesc&) const = default;
  STAGEWIRE_API std::vector<std::byte> pack() const;
  /// `corrupt` when the bytes are not such an array, with the field that is wrong.
  STAGEWIRE_API static Result<EngineDesc> unpack(std::span<const std::byte> bytes);
};

struct MemoryDesc {
  std::string engine_key;  ///< owner
  std::uint32_t id = 0;    ///< unique within the owner
  int device_id = -1;
  std::string device_bus_id;
  std::uint64_t data = 0;                 ///< address in the owner's process
  std::uint64_t size = 0;                 ///< bytes
  MemoryKind kind = MemoryKind::unknown;  ///< "loc"
  std::array<std::byte, 64> ipc_handle{};
  int numa_node = -1;
  std::uint64_t ipc_offset = 0;
  std::array<std::byte, 64> fabric_handle{};
  int vpod_id = -1;
  std::string vpod_ppod_id;
  std::uint64_t fabric_offset = 0;
  std::uint64_t fabric_alloc_size = 0;
  // Appended by stagewire:
  std::uint64_t instance_id = 0;  ///< of the owning engine
  Access access = Access::local_only;
  std::vector<BackendBlob> remote_keys;  ///< one for each backend that can reach the region

  bool operator==(const MemoryDesc&) const = default;
  STAGEWIRE_API std::vector<std::byte> pack() const;
  STAGEWIRE_API static Result<MemoryDesc> unpack(std::span<const std::byte> bytes);
};

}  // namespace stagewire
