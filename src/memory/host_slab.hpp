// Host memory that other processes can map: a sealed memfd.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/mapping.hpp"
#include "base/unique_fd.hpp"
#include "stagewire/result.hpp"

namespace stagewire::memory {

struct HostSlabOptions {
  std::string name = "stagewire";  ///< seen in /proc/PID/maps
  bool huge_pages =
      true;  ///< reserved huge pages when enough are free, else transparent ones where they can be had
  bool prefault = true;  ///< touch every page now, so that nothing on the data path faults
  /// Called about ten times a second while pre-faulting, when it takes over a second: bytes done, bytes in
  /// all.
  std::function<void(std::size_t, std::size_t)> progress = {};
};

/// Mapped read-write here; the file can neither shrink nor grow (sealed), so that a peer's mapping never
/// faults. It has no name in any file system: it is gone with the last process that has it open or mapped.
class HostSlab {
 public:
  /// `size` is rounded up to whole pages of 4 KiB. Blocks while it pre-faults. `too_large` when this machine
  /// or process can never hold it, `exhausted` when it cannot now: size asked, what there is, the limit that
  /// was hit and how to raise it. Without `prefault` memory is taken when it is first touched, and not
  /// checked for beforehand.
  static Result<std::unique_ptr<HostSlab>> create(std::size_t size, const HostSlabOptions& options = {});

  std::span<std::byte> bytes() const { return mapping_.bytes(); }
  int fd() const { return fd_.get(); }
  /// "2 MiB pages, reserved", "2 MiB pages, transparent (512 of 512 MiB)", "4 KiB pages", as found in the
  /// page tables after pre-faulting; "pages on demand" without it.
  const std::string& page_kind() const { return page_kind_; }

 private:
  HostSlab(base::UniqueFd fd, base::Mapping mapping, std::string page_kind)
      : fd_(std::move(fd)), mapping_(std::move(mapping)), page_kind_(std::move(page_kind)) {}

  base::UniqueFd fd_;
  base::Mapping mapping_;
  std::string page_kind_;
};

}  // namespace stagewire::memory
