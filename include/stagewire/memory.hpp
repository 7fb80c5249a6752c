// Memory that engines and backends speak about.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace stagewire {

/// Values are those of MORI-IO's MemoryLocationType, they travel in descriptors.
enum class MemoryKind : std::uint32_t { unknown = 0, cpu = 1, gpu = 2 };

/// What a peer may do with a registered region. Nothing is granted that is not named here.
enum class Access : std::uint32_t {
  local_only = 0,
  remote_read = 1,
  remote_write = 2,
  remote_read_write = 3
};

constexpr bool allows_read(Access a) {
  return (static_cast<std::uint32_t>(a) & 1U) != 0;
}
constexpr bool allows_write(Access a) {
  return (static_cast<std::uint32_t>(a) & 2U) != 0;
}

/// A range of memory that its owner keeps alive and in place until it is deregistered.
struct MemoryRegion {
  std::byte* data = nullptr;  ///< address in this process, or on the device
  std::size_t size = 0;       ///< bytes
  MemoryKind kind = MemoryKind::cpu;
  int device = -1;              ///< device ordinal for gpu, -1 for cpu
  int fd = -1;                  ///< file that backs the memory (a sealed memfd), -1 when there is none;
                                ///< borrowed: stays open as long as the region is registered
  std::uint64_t fd_offset = 0;  ///< where `data` lies in that file, bytes
  std::uint32_t id = 0;         ///< what the engine's descriptors call it; IOEngine fills it in
};

}  // namespace stagewire
