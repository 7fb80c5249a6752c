// Memory without a name that two processes map: sealed memfds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/unique_fd.hpp"
#include "stagewire/result.hpp"

namespace stagewire::backends::shm {

/// A range of address space that is unmapped by its owner.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Mapping();

  /// `offset` must be a multiple of the file's page size.
  static Result<Mapping> map(int fd, std::uint64_t offset, std::size_t size, bool writable);

  /// Sets up all its pages now, so that later accesses do not fault. Best effort.
  void populate(bool writable) const;

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  Mapping(std::byte* data, std::size_t size) : data_(data), size_(size) {}
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// A zeroed memfd that can neither shrink nor grow.
Result<base::UniqueFd> create_sealed_file(const char* name, std::size_t size);

struct FileShape {
  std::uint64_t size = 0;
  std::uint64_t page = 0;  ///< what offsets of mappings are multiples of: larger than 4 KiB for huge pages
};

/// `invalid_argument` unless it is a memfd sealed against shrinking: only of such a file can a mapping never
/// fault.
Result<FileShape> check_sealed(int fd);

}  // namespace stagewire::backends::shm
