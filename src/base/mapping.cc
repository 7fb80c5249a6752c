#include "base/mapping.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>

#include "base/text.hpp"

namespace stagewire::base {
namespace {

std::string address_space_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "not limited (ulimit -v)";
  return text("limited to ", size_text(limit.rlim_cur), " (ulimit -v)");
}

Error mapping_error(std::size_t size, int error_number) {
  if (error_number == ENOMEM) {
    return error(ErrorCode::exhausted, "no room to map ", size_text(size), " (", size,
                 " bytes): the address space of this process is ", address_space_limit(), "; ",
                 errno_text(error_number));
  }
  return system_error(text("mmap of ", size_text(size), " (", size, " bytes)"), error_number);
}

/// Address space only, so that a range of it can be aligned; nullptr when there is none.
std::byte* reserve(std::size_t size) {
  void* address = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return address == MAP_FAILED ? nullptr : static_cast<std::byte*>(address);
}

/// Where a file of `size` bytes is best mapped: an aligned part of a reservation, the rest given back;
/// nullptr when there is no room.
std::byte* reserve_aligned(std::size_t size) {
  const std::size_t reserved_size = size + Mapping::kHugePage;
  std::byte* const reserved = reserve(reserved_size);
  if (reserved == nullptr) return nullptr;
  const std::size_t beyond = reinterpret_cast<std::uintptr_t>(reserved) % Mapping::kHugePage;
  const std::size_t skipped = beyond == 0 ? 0 : Mapping::kHugePage - beyond;
  if (skipped > 0) munmap(reserved, skipped);
  munmap(reserved + skipped + size, Mapping::kHugePage - skipped);
  return reserved + skipped;
}

}  // namespace

Result<Mapping> Mapping::shared(int fd, std::uint64_t offset, std::size_t size, MapAccess access) {
  const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  if (size == 0 || size % page != 0 || offset % page != 0 || size > PTRDIFF_MAX ||
      offset > PTRDIFF_MAX - size) {
    return error(ErrorCode::invalid_argument, "mapping of ", size, " bytes at offset ", offset,
                 ": not whole pages of ", page, " bytes, or beyond what a file can hold");
  }
  std::byte* wanted = nullptr;
  if (size >= kHugePage) {
    wanted = reserve_aligned(size);
    if (wanted == nullptr) return mapping_error(size, errno);
  }
  const int protection = access == MapAccess::read_only ? PROT_READ : PROT_READ | PROT_WRITE;
  const int flags = wanted == nullptr ? MAP_SHARED : MAP_SHARED | MAP_FIXED;
  void* const address = mmap(wanted, size, protection, flags, fd, static_cast<off_t>(offset));
  if (address == MAP_FAILED) {
    const int error_number = errno;
    if (wanted != nullptr) munmap(wanted, size);
    return mapping_error(size, error_number);
  }
  return Mapping(static_cast<std::byte*>(address), size);
}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    reset();
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

void Mapping::reset() {
  if (data_ != nullptr) munmap(data_, size_);
  data_ = nullptr;
  size_ = 0;
}

}  // namespace stagewire::base
