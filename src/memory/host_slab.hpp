// Host memory that other processes can map: a sealed memfd.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/unique_fd.hpp"
#include "stagewire/result.hpp"

namespace stagewire::memory {

struct HostSlabOptions {
  std::string name = "stagewire";           ///< seen in /proc/PID/maps
  bool huge_pages = true;                   ///< hugetlb pages when enough are free, else transparent ones by advice
  bool prefault = true;                     ///< touch every page now, so that nothing on the data path faults
  /// Called about ten times a second while pre-faulting, when it takes over a second: bytes done, bytes in all.
  std::function<void(std::size_t, std::size_t)> progress;
};

/// Mapped read-write here; the file can neither shrink nor grow (sealed), so that a peer's mapping never faults.
class HostSlab {
 public:
  /// `exhausted`/`failed` with the numbers (size asked, memory available, the limit that was hit and how to raise it).
  static Result<std::unique_ptr<HostSlab>> create(std::size_t size, const HostSlabOptions& options = {});
  virtual ~HostSlab() = default;
  virtual std::span<std::byte> bytes() const = 0;
  virtual int fd() const = 0;
  /// "2 MiB transparent huge pages", "4 KiB pages" ...
  virtual const std::string& page_kind() const = 0;
};

}  // namespace stagewire::memory
