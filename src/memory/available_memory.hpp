// How much memory this process could still fill, and what limits it.
#pragma once

#include <cstdint>
#include <string>

namespace stagewire::memory {

struct AvailableMemory {
  std::uint64_t bytes = UINT64_MAX;  ///< UINT64_MAX = could not be found out
  std::string limit;                 ///< "MemAvailable of this machine", "memory.max of /sys/fs/cgroup/x"
};

/// The smallest of what the machine has left and what each control group around this process leaves (versions
/// 1 and 2; file cache counts as left). `root` is where /proc and /sys are looked for; tests give their own.
AvailableMemory available_memory(const std::string& root = "");

/// Bytes in reserved huge pages of the default size that nobody uses: they are not among those above.
std::uint64_t free_huge_pages(const std::string& root = "");

}  // namespace stagewire::memory
