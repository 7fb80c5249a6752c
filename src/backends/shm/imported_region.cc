#include "backends/shm/imported_region.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/text.hpp"

namespace stagewire::backends::shm {
namespace {

constexpr std::uint64_t kPopulateStep = 8ULL << 20;

std::uint64_t round_down(std::uint64_t value, std::uint64_t unit) {
  return value - value % unit;
}

}  // namespace

Result<std::shared_ptr<RegionMapping>> RegionMapping::create(const RegionKey& key, base::UniqueFd file) {
  const auto shape = check_sealed(file.get());
  if (!shape) return shape.error();
  if (key.file_offset > shape->size || key.size > shape->size - key.file_offset) {
    return base::error(ErrorCode::corrupt, "a remote key names ", key.size, " bytes at ", key.file_offset,
                       " of a file of ", shape->size, " bytes");
  }
  const bool writable = allows_write(static_cast<Access>(key.access));
  const std::uint64_t first = round_down(key.file_offset, shape->page);
  const std::uint64_t end = round_down(key.file_offset + key.size + shape->page - 1, shape->page);
  if (end == first)
    return std::shared_ptr<RegionMapping>(new RegionMapping({}, std::move(file), 0, key, writable));
  auto mapping = base::Mapping::shared(file.get(), first, end - first,
                                       writable ? base::MapAccess::read_write : base::MapAccess::read_only);
  if (!mapping) return mapping.error();
  // Advice: without huge pages it is slower, no less right.
  if (::madvise(mapping->bytes().data(), mapping->bytes().size(), MADV_HUGEPAGE) != 0) errno = 0;
  return std::shared_ptr<RegionMapping>(
      new RegionMapping(std::move(*mapping), std::move(file), key.file_offset - first, key, writable));
}

// Holes of the file are left alone: populating them would fill the owner's memory.
std::uint64_t RegionMapping::populate(std::uint64_t done) const {
  const std::uint64_t end = file_offset_ + size_;
  // Huge-page files do not say where their holes are; their owner fills them.
  const off_t data = ::lseek(file_.get(), static_cast<off_t>(file_offset_ + done), SEEK_DATA);
  if (data < 0 && errno == ENXIO) return size_;
  const std::uint64_t from = data < 0 ? file_offset_ + done : static_cast<std::uint64_t>(data);
  if (from >= end) return size_;
  const off_t hole = ::lseek(file_.get(), static_cast<off_t>(from), SEEK_HOLE);
  const std::uint64_t until =
      std::min({end, from + kPopulateStep, hole < 0 ? end : static_cast<std::uint64_t>(hole)});
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t first = round_down(from, page);
  // Kernels before 5.14 do not know it: then the first access of each page faults.
  if (::madvise(mapping_.bytes().data() + start_ + first - file_offset_, until - first,
                writable_ ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) != 0) {
    return size_;
  }
  return until - file_offset_;
}

std::optional<Status> Import::status() const {
  if (ready_.load(std::memory_order_acquire)) return Status();
  const std::lock_guard lock(mutex_);
  if (error_) return Status(*error_);
  return std::nullopt;
}

void Import::succeed(std::shared_ptr<RegionMapping> mapping) {
  const std::lock_guard lock(mutex_);
  if (error_ || ready_.load(std::memory_order_relaxed)) return;
  mapping_ = std::move(mapping);
  ready_.store(true, std::memory_order_release);
}

void Import::fail(const Error& reason) {
  const std::lock_guard lock(mutex_);
  if (!error_ && !ready_.load(std::memory_order_relaxed)) error_ = reason;
}

}  // namespace stagewire::backends::shm
