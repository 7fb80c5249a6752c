#include "memory/host_slab.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "base/text.hpp"
#include "memory/available_memory.hpp"
#include "memory/prefault.hpp"

namespace stagewire::memory {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = base::Mapping::kHugePage;
// From linux/memfd.h (21 << 26): 2 MiB pages, whatever the machine's default huge page is.
constexpr unsigned kHuge2MiB = 21U << 26U;

struct File {
  base::UniqueFd fd;
  base::Mapping mapping;
};

std::string amount(std::uint64_t bytes) {
  return base::text(base::size_text(bytes), " (", bytes, " bytes)");
}

/// Growing a file beyond this limit would not fail but end the process with SIGXFSZ.
Status check_file_size_limit(std::size_t size) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || size <= limit.rlim_cur)
    return {};
  return base::error(ErrorCode::too_large, amount(size),
                     " asked for, but files of this process are limited to ", amount(limit.rlim_cur),
                     ": raise it with 'ulimit -f unlimited', or ask for less");
}

/// Filling more than there is would not fail but wake the kernel's out-of-memory killer.
Status check_available(std::size_t size) {
  const AvailableMemory available = available_memory();
  if (size <= available.bytes) return {};
  return base::error(ErrorCode::exhausted, amount(size), " asked for, but only ", amount(available.bytes),
                     " can be had (", available.limit,
                     "): ask for less (memory_pool_size), end what uses the memory, or raise that limit");
}

Result<File> create_file(std::size_t size, const std::string& name, unsigned extra_flags) {
  File file;
  file.fd.reset(memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING | extra_flags));
  if (!file.fd) {
    if (errno == EMFILE || errno == ENFILE) {
      return base::error(ErrorCode::exhausted, "no file descriptor left for ", amount(size),
                         ": raise the limit with 'ulimit -n'; ", base::errno_text(errno));
    }
    return base::system_error(base::text("memfd_create of '", name, "'"), errno);
  }
  if (ftruncate(file.fd.get(), static_cast<off_t>(size)) != 0) {
    return base::system_error(base::text("giving the memory file its ", amount(size)), errno);
  }
  Result<base::Mapping> mapping = base::Mapping::shared(file.fd.get(), 0, size, base::MapAccess::read_write);
  if (!mapping) return mapping.error();
  file.mapping = std::move(*mapping);
  if (fcntl(file.fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return base::system_error("sealing the memory file", errno);
  }
  return file;
}

std::string describe_pages(std::span<const std::byte> memory) {
  const std::size_t huge = huge_page_bytes(memory);
  if (huge == 0) return "4 KiB pages";
  return base::text("2 MiB pages, transparent (", base::size_text(huge), " of ",
                    base::size_text(memory.size()), ")");
}

}  // namespace

Result<std::unique_ptr<HostSlab>> HostSlab::create(std::size_t size, const HostSlabOptions& options) {
  if (size == 0) return base::error(ErrorCode::invalid_argument, "memory of 0 bytes asked for");
  if (size > PTRDIFF_MAX - kHugePage) {
    return base::error(ErrorCode::too_large, amount(size), " asked for: more than an address space holds");
  }
  size = (size + kPage - 1) / kPage * kPage;
  if (Status status = check_file_size_limit(size); !status) return status.error();

  // Mapping reserves the huge pages: when it succeeds there are enough, and touching them cannot fail. Only
  // sizes of whole huge pages, so that nobody gets more than was asked for.
  if (options.huge_pages && size % kHugePage == 0) {
    if (Result<File> file = create_file(size, options.name, MFD_HUGETLB | kHuge2MiB)) {
      if (options.prefault) {
        if (Status status = prefault(file->mapping.bytes(), false, options.progress); !status)
          return status.error();
      }
      return std::unique_ptr<HostSlab>(
          new HostSlab(std::move(file->fd), std::move(file->mapping), "2 MiB pages, reserved"));
    }
  }

  if (options.prefault) {
    if (Status status = check_available(size); !status) return status.error();
  }
  Result<File> file = create_file(size, options.name, 0);
  if (!file) return file.error();
  if (options.huge_pages) {  // advice that the kernel may ignore
    madvise(file->mapping.bytes().data(), file->mapping.bytes().size(), MADV_HUGEPAGE);
  }
  std::string page_kind = "pages on demand";
  if (options.prefault) {
    if (Status status = prefault(file->mapping.bytes(), options.huge_pages, options.progress); !status) {
      return status.error();
    }
    page_kind = describe_pages(file->mapping.bytes());
  }
  return std::unique_ptr<HostSlab>(
      new HostSlab(std::move(file->fd), std::move(file->mapping), std::move(page_kind)));
}

}  // namespace stagewire::memory
