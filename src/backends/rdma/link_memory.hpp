// The buffers of one link: what it receives into and what it sends from, in one allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "backends/rdma/frame.hpp"
#include "backends/rdma/port.hpp"

namespace stagewire::backends::rdma {

/// The frames of one direction.
struct Shape {
  std::uint32_t buffers = 0;
  std::uint32_t message_size = 0;  ///< at most
  std::uint32_t payload_size = 0;  ///< at most
  std::uint32_t payloads = 0;      ///< under way at once, at most

  std::size_t receive_size() const { return padded(kFrameHeader + padded(payload_size) + message_size); }
  std::size_t send_size() const { return padded(kFrameHeader + message_size); }
};

class LinkMemory {
 public:
  LinkMemory(const Shape& inbound, const Shape& outbound)
      : inbound_(inbound),
        outbound_(outbound),
        size_(inbound.buffers * inbound.receive_size() + outbound.buffers * outbound.send_size() +
              outbound.payloads * padded(outbound.payload_size)),
        bytes_(static_cast<std::byte*>(::operator new(size_, std::align_val_t(4096)))) {}

  const Shape& inbound() const { return inbound_; }
  const Shape& outbound() const { return outbound_; }

  std::byte* receive_buffer(std::size_t index) const {
    return bytes_.get() + index * inbound_.receive_size();
  }
  std::byte* send_buffer(std::size_t index) const {
    return receive_buffer(inbound_.buffers) + index * outbound_.send_size();
  }
  std::byte* payload(std::size_t index) const {
    return send_buffer(outbound_.buffers) + index * padded(outbound_.payload_size);
  }

  /// Makes it known to a port, once. Blocks while pages are pinned. One thread at a time.
  Status register_with(const std::shared_ptr<Port>& port) {
    if (regions_.contains(port.get())) return {};
    auto region = port->register_memory(bytes_.get(), size_, IBV_ACCESS_LOCAL_WRITE);
    if (!region) return region.error();
    regions_.emplace(port.get(), Registered{port, std::move(*region)});
    return {};
  }
  /// Of a port that knows it.
  std::uint32_t key(const Port& port) const { return regions_.at(&port).region->lkey; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { ::operator delete(bytes, std::align_val_t(4096)); }
  };
  struct Registered {
    std::shared_ptr<Port> port;  ///< outlives the region
    Handle<ibv_mr> region;
  };
  const Shape inbound_;
  const Shape outbound_;
  const std::size_t size_;
  const std::unique_ptr<std::byte, Free> bytes_;
  std::map<const Port*, Registered> regions_;
};

}  // namespace stagewire::backends::rdma
