// Registered memory: on every port of the backend, named by one remote key.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "backends/rdma/port.hpp"
#include "stagewire/backend.hpp"

namespace stagewire::backends::rdma {

/// One range of memory on all ports. Shared by the regions that name the same range with the same access.
struct RegisteredRange {
  std::vector<std::shared_ptr<Port>> ports;  ///< outlive the handles below
  std::vector<Handle<ibv_mr>> handles;       ///< one for each port
  std::vector<std::uint32_t> local_keys;     ///< of the handles
};

/// Which regions peers may ask for.
class RegionTable {
 public:
  explicit RegionTable(std::uint64_t instance) : instance_(instance) {}
  std::uint64_t instance() const { return instance_; }

  /// Registers on all ports, or finds the range registered already. Blocks while pages are pinned.
  Result<std::shared_ptr<const RegisteredRange>> range(const std::vector<std::shared_ptr<Port>>& ports,
                                                       const MemoryRegion& region, Access access);
  /// Returns the region's id.
  std::uint64_t add(std::uint64_t token);
  void remove(std::uint64_t id);
  /// Ok when there is such a region, with this token, that peers may use.
  Status check(std::uint64_t id, std::uint64_t token) const;

 private:
  using RangeName = std::tuple<const std::byte*, std::size_t, int>;
  const std::uint64_t instance_;
  mutable std::mutex mutex_;
  std::uint64_t next_id_ = 1;
  std::unordered_map<std::uint64_t, std::uint64_t> tokens_;  ///< by id
  std::mutex ranges_mutex_;                                  ///< held while pages are pinned
  std::map<RangeName, std::weak_ptr<const RegisteredRange>> ranges_;
};

class RdmaRegistration final : public Registration {
 public:
  static Result<std::unique_ptr<Registration>> create(std::shared_ptr<RegionTable> table,
                                                      const std::vector<std::shared_ptr<Port>>& ports,
                                                      const MemoryRegion& region, Access access);
  ~RdmaRegistration() override;
  std::span<const std::byte> remote_key() const override { return packed_key_; }

  const MemoryRegion& memory() const { return memory_; }
  /// One for each port.
  std::span<const std::uint32_t> local_keys() const { return range_->local_keys; }

 private:
  RdmaRegistration(std::shared_ptr<RegionTable> table, std::shared_ptr<const RegisteredRange> range,
                   const MemoryRegion& region, Access access);

  const std::shared_ptr<RegionTable> table_;
  const std::shared_ptr<const RegisteredRange> range_;
  const MemoryRegion memory_;
  const std::uint64_t token_;
  const std::uint64_t id_;
  const std::vector<std::byte> packed_key_;
};

/// The state of one import: pending until the peer has said that the region is still there.
class Import {
 public:
  explicit Import(RegionKey key) : key_(std::move(key)) {}
  const RegionKey& key() const { return key_; }
  Access access() const { return static_cast<Access>(key_.access); }
  std::optional<Status> status() const;
  /// Only the first end counts.
  void end(const Status& status);

 private:
  const RegionKey key_;
  mutable std::mutex mutex_;
  std::optional<Status> status_;
};

class RdmaRemoteRegion final : public RemoteRegion {
 public:
  /// `link`: the link that asked; requests over another one are refused.
  RdmaRemoteRegion(std::shared_ptr<Import> import, const void* link)
      : import_(std::move(import)), link_(link) {}
  std::uint64_t size() const override { return import_->key().size; }
  std::optional<Status> status() const override { return import_->status(); }
  const std::byte* mapping() const override { return nullptr; }
  const Import& import() const { return *import_; }
  const void* link() const { return link_; }

 private:
  const std::shared_ptr<Import> import_;
  const void* const link_;
};

/// Whether a region can be registered, for all that it says of itself.
Status check_region(const MemoryRegion& region);
/// IBV_ACCESS_...
int verbs_access(Access access);

/// From the system's random number generator.
std::uint64_t random_number();

}  // namespace stagewire::backends::rdma
