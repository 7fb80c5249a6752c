#include "backends/shm/region_table.hpp"

#include <fcntl.h>

#include <cerrno>

#include "backends/shm/address.hpp"
#include "backends/shm/shared_file.hpp"
#include "base/text.hpp"

namespace stagewire::backends::shm {
namespace {

Status check_shareable(const MemoryRegion& region) {
  if (region.kind != MemoryKind::cpu) {
    return base::error(ErrorCode::unsupported, "shm carries host memory only");
  }
  if (region.fd < 0) {
    return base::error(ErrorCode::unsupported, "a region of ", base::size_text(region.size),
                       " without a file behind it cannot be mapped by another process: take it from "
                       "IOEngine::allocate(), or register it for local use only");
  }
  const auto shape = check_sealed(region.fd);
  if (!shape) return shape.error();
  if (region.fd_offset > shape->size || region.size > shape->size - region.fd_offset) {
    return base::error(ErrorCode::invalid_argument, "a region of ", region.size, " bytes at ",
                       region.fd_offset, " of a file of ", shape->size, " bytes");
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Registration>> RegionTable::add(const MemoryRegion& region, Access access) {
  // Peers cannot ask for a region of local use, so any memory will do.
  if (access != Access::local_only) {
    const Status shareable = check_shareable(region);
    if (!shareable) return shareable.error();
  } else if (region.kind != MemoryKind::cpu) {
    return base::error(ErrorCode::unsupported, "shm carries host memory only");
  }
  const auto token = random_u64();
  if (!token) return token.error();
  RegionKey key{socket_name_, 0, *token, region.size, region.fd_offset, static_cast<std::uint32_t>(access)};
  {
    const std::lock_guard lock(mutex_);
    key.id = next_id_++;
    if (access != Access::local_only) entries_[key.id] = {key.token, region.fd, access};
  }
  return std::unique_ptr<Registration>(std::make_unique<ShmRegistration>(shared_from_this(), region, key));
}

void RegionTable::remove(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  entries_.erase(id);
}

Result<base::UniqueFd> RegionTable::open_for_peer(std::uint64_t id, std::uint64_t token) {
  const std::lock_guard lock(mutex_);  // also keeps the registrant's descriptor open meanwhile
  const auto entry = entries_.find(id);
  if (entry == entries_.end() || entry->second.token != token) {
    return base::error(ErrorCode::not_found, "region ", id, " is not registered (any more)");
  }
  base::UniqueFd fd;
  if (allows_write(entry->second.access)) {
    fd.reset(::fcntl(entry->second.fd, F_DUPFD_CLOEXEC, 0));
  } else {
    // A second description of the same file, without the right to write: its mappings cannot get it either.
    const std::string path = base::text("/proc/self/fd/", entry->second.fd);
    fd.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  }
  if (!fd) return base::system_error(base::text("opening the file of region ", id, " for a peer"), errno);
  return fd;
}

}  // namespace stagewire::backends::shm
