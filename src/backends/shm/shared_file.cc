#include "backends/shm/shared_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/text.hpp"

namespace stagewire::backends::shm {

Result<base::UniqueFd> create_sealed_file(const char* name, std::size_t size) {
  base::UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return base::system_error("memfd_create", errno);
  if (::ftruncate(fd.get(), static_cast<off_t>(size)) != 0) {
    return base::system_error(base::text("ftruncate of a memfd to ", base::size_text(size)), errno);
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return base::system_error("sealing a memfd", errno);
  }
  return fd;
}

void populate_pages(const base::Mapping& mapping) {
  // Kernels before 5.14 do not know it: then the first access of each page faults.
  if (::madvise(mapping.bytes().data(), mapping.bytes().size(), MADV_POPULATE_WRITE) != 0) errno = 0;
}

Result<FileShape> check_sealed(int fd) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0) {
    return base::error(ErrorCode::invalid_argument,
                       "the region's file is no memfd that can be sealed: ", base::errno_text(errno));
  }
  if ((seals & F_SEAL_SHRINK) == 0) {
    return base::error(ErrorCode::invalid_argument,
                       "the region's memfd is not sealed against shrinking: add F_SEAL_SHRINK");
  }
  struct stat status {};
  if (::fstat(fd, &status) != 0) return base::system_error("fstat of a memfd", errno);
  const auto system_page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return FileShape{static_cast<std::uint64_t>(status.st_size),
                   std::max(system_page, static_cast<std::uint64_t>(status.st_blksize))};
}

}  // namespace stagewire::backends::shm
