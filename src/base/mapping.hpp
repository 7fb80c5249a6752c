// A range of address space that shows a file, with an owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "stagewire/result.hpp"

namespace stagewire::base {

enum class MapAccess { read_only, read_write };

/// Unmapped by the destructor; spans of bytes() are valid until then.
class Mapping {
 public:
  static constexpr std::size_t kHugePage = std::size_t{2} << 20;

  /// Maps `size` bytes of `fd` from `offset` on, shared with everybody who maps the file; both whole pages. A
  /// range of kHugePage or more begins at a multiple of it if it can, so that huge pages can be mapped there.
  /// Faults in nothing. `exhausted` when the address space, or what backs the file, has no room, with the
  /// process's limit in the text.
  static Result<Mapping> shared(int fd, std::uint64_t offset, std::size_t size, MapAccess access);

  Mapping() = default;
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { reset(); }

  /// Writable only when it was mapped read_write: a write to a read_only mapping ends the process.
  std::span<std::byte> bytes() const { return {data_, size_}; }
  explicit operator bool() const { return data_ != nullptr; }
  void reset();

 private:
  Mapping(std::byte* data, std::size_t size) : data_(data), size_(size) {}

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace stagewire::base
