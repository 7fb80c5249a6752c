// A region of ours that MORI-IO's engines may be told of.
#pragma once

#include <span>
#include <vector>

#include "backends/rdma/port.hpp"
#include "stagewire/backend.hpp"

namespace stagewire::backends::rdma::mori {

struct Hub;

/// Registered for itself alone, so that nobody reaches it any more when this is destroyed.
class Region final : public Registration {
 public:
  static Result<std::unique_ptr<Registration>> create(const std::shared_ptr<Hub>& hub,
                                                      const MemoryRegion& memory, Access access);
  ~Region() override;
  /// A MemoryDesc as MORI-IO has it.
  std::span<const std::byte> remote_key() const override { return packed_; }

  const MemoryRegion& memory() const { return memory_; }
  Access access() const { return access_; }
  /// One for each port.
  std::span<const std::uint32_t> local_keys() const { return local_keys_; }
  std::uint32_t remote_key(std::size_t port) const { return handles_[port]->rkey; }

 private:
  Region(std::shared_ptr<Hub> hub, const MemoryRegion& memory, Access access)
      : hub_(std::move(hub)), memory_(memory), access_(access) {}

  const std::shared_ptr<Hub> hub_;
  const MemoryRegion memory_;
  const Access access_;
  std::vector<std::shared_ptr<Port>> ports_;  ///< outlive the handles
  std::vector<Handle<ibv_mr>> handles_;
  std::vector<std::uint32_t> local_keys_;
  std::vector<std::byte> packed_;
};

}  // namespace stagewire::backends::rdma::mori
