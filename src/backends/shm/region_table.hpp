// The regions that this backend has registered, and who may have their files.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/shm/formats.hpp"
#include "base/unique_fd.hpp"
#include "stagewire/backend.hpp"

namespace stagewire::backends::shm {

/// Thread-safe. Lives as long as the backend or one of its registrations.
class RegionTable : public std::enable_shared_from_this<RegionTable> {
 public:
  explicit RegionTable(std::string socket_name) : socket_name_(std::move(socket_name)) {}

  /// `unsupported` for memory that peers cannot map although `access` lets them; `invalid_argument` when the
  /// file is not sealed or ends before the region.
  Result<std::unique_ptr<Registration>> add(const MemoryRegion& region, Access access);
  void remove(std::uint64_t id);

  /// A descriptor of the region's file for a peer: read-only unless the region is registered for remote
  /// write. `not_found` for an id or token that is not (or no longer) registered.
  Result<base::UniqueFd> open_for_peer(std::uint64_t id, std::uint64_t token);

 private:
  struct Entry {
    std::uint64_t token = 0;
    int fd = -1;  // the registrant's
    Access access = Access::local_only;
  };

  const std::string socket_name_;
  std::mutex mutex_;
  std::map<std::uint64_t, Entry> entries_;
  std::uint64_t next_id_ = 1;
};

/// The local side of a work request.
class ShmRegistration final : public Registration {
 public:
  ShmRegistration(std::shared_ptr<RegionTable> table, const MemoryRegion& region, const RegionKey& key)
      : table_(std::move(table)), region_(region), id_(key.id), key_(pack(key)) {}
  ~ShmRegistration() override { table_->remove(id_); }

  std::span<const std::byte> remote_key() const override { return key_; }
  const MemoryRegion& region() const { return region_; }

 private:
  const std::shared_ptr<RegionTable> table_;
  const MemoryRegion region_;
  const std::uint64_t id_;
  const std::vector<std::byte> key_;
};

}  // namespace stagewire::backends::shm
