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

/// Where a file of `size` bytes is best mapped: an aligned place that was free a moment ago; nullptr when
/// there is no room. It is not kept reserved: MAP_FIXED over a reservation takes that away even when it then
/// fails, and whatever another thread has mapped there by then must stay.
std::byte* aligned_place(std::size_t size) {
  const std::size_t room = size + Mapping::kHugePage;
  void* const found = mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) return nullptr;
  munmap(found, room);
  const std::size_t beyond = reinterpret_cast<std::uintptr_t>(found) % Mapping::kHugePage;
  return static_cast<std::byte*>(found) + (beyond == 0 ? 0 : Mapping::kHugePage - beyond);
}

}  // namespace

Result<Mapping> Mapping::shared(int fd, std::uint64_t offset, std::size_t size, MapAccess access) {
  const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  if (size == 0 || size % page != 0 || offset % page != 0 || size > PTRDIFF_MAX ||
      offset > PTRDIFF_MAX - size) {
    return error(ErrorCode::invalid_argument, "mapping of ", size, " bytes at offset ", offset,
                 ": not whole pages of ", page, " bytes, or beyond what a file can hold");
  }
  std::byte* wanted = nullptr;  // only a wish: somebody else may have taken the place
  if (size >= kHugePage) {
    wanted = aligned_place(size);
    if (wanted == nullptr) return mapping_error(size, errno);
  }
  const int protection = access == MapAccess::read_only ? PROT_READ : PROT_READ | PROT_WRITE;
  void* const address = mmap(wanted, size, protection, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (address == MAP_FAILED) return mapping_error(size, errno);
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
