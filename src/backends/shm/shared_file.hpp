// Memory without a name that two processes map: sealed memfds.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/mapping.hpp"
#include "base/unique_fd.hpp"
#include "stagewire/result.hpp"

namespace stagewire::backends::shm {

/// A zeroed memfd that can neither shrink nor grow.
Result<base::UniqueFd> create_sealed_file(const char* name, std::size_t size);

/// Sets up a writable mapping's pages now, so that later accesses do not fault. Best effort.
void populate_pages(const base::Mapping& mapping);

struct FileShape {
  std::uint64_t size = 0;
  std::uint64_t page = 0;  ///< what offsets of mappings are multiples of: larger than 4 KiB for huge pages
};

/// `invalid_argument` unless it is a memfd sealed against shrinking: only of such a file can a mapping never
/// fault.
Result<FileShape> check_sealed(int fd);

}  // namespace stagewire::backends::shm
