// What stands behind a Delivery and a PoolBuffer: whoever destroys them gives the bytes back.
#pragma once

#include <atomic>
#include <memory>
#include <span>

#include "base/recycled.hpp"
#include "engine/core.hpp"
#include "memory/pool.hpp"
#include "stagewire/connector.hpp"

namespace stagewire {

class Delivery::Holder {
 public:
  Holder(Route by, const wire::Ready& ready);
  virtual ~Holder() = default;
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  const Route route;
  const wire::PayloadKind kind;
  const DType dtype;
  const std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

class PoolBuffer::Holder {
 public:
  Holder(std::shared_ptr<memory::Pool> pool, memory::Pool::Offset offset, std::uint64_t size)
      : pool_(std::move(pool)), offset_(offset), size_(size) {}
  ~Holder() {
    if (pool_) pool_->free(offset_);
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  const std::shared_ptr<memory::Pool>& pool() const { return pool_; }
  memory::Pool::Offset offset() const { return offset_; }
  std::uint64_t size() const { return size_; }
  std::span<std::byte> bytes() const { return pool_->bytes().subspan(offset_, size_); }
  /// The block now belongs to somebody else.
  void let_go() { pool_.reset(); }

 private:
  std::shared_ptr<memory::Pool> pool_;
  memory::Pool::Offset offset_;
  std::uint64_t size_;
};

namespace connector {

/// Eager: the bytes are in the slot that came with the message.
class EagerHolder final : public Delivery::Holder, public base::Recycled<EagerHolder> {
 public:
  EagerHolder(const wire::Ready& ready, MessagePayload payload);

 private:
  MessagePayload payload_;
};

/// Lease: the bytes are in the sender's block, which stays pinned until the sender hears of the release.
class LeaseHolder final : public Delivery::Holder {
 public:
  /// `leased` counts the bytes that this receiver holds of the peer.
  LeaseHolder(const wire::Ready& ready, std::weak_ptr<engine::Core> core, engine::PeerPtr peer,
              std::shared_ptr<RemoteRegion> region, std::shared_ptr<std::atomic<std::uint64_t>> leased);
  ~LeaseHolder() override;

 private:
  const std::uint64_t lease_;
  const std::weak_ptr<engine::Core> core_;
  const engine::PeerPtr peer_;
  const std::shared_ptr<RemoteRegion> region_;
  const std::shared_ptr<std::atomic<std::uint64_t>> leased_;
};

/// Read and write: the bytes are in a block of our own pool.
class BlockHolder final : public Delivery::Holder {
 public:
  BlockHolder(Route by, const wire::Ready& ready, std::unique_ptr<PoolBuffer::Holder> block);

 private:
  const std::unique_ptr<PoolBuffer::Holder> block_;
};

}  // namespace connector
}  // namespace stagewire
