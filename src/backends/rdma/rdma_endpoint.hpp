// Our end of a connection over RDMA: a link with an owner.
#pragma once

#include <memory>

#include "backends/rdma/link.hpp"
#include "stagewire/backend.hpp"

namespace stagewire::backends::rdma {

class RdmaEndpoint final : public Endpoint {
 public:
  explicit RdmaEndpoint(std::shared_ptr<Link> link) : link_(std::move(link)) {}
  ~RdmaEndpoint() override { link_->close(); }

  std::optional<Status> status() const override { return link_->status(); }
  Result<std::unique_ptr<RemoteRegion>> import(std::span<const std::byte> remote_key) override;
  Result<Posted> post(const WorkRequest& request) override;
  PayloadSlot reserve(std::size_t size) override { return link_->reserve(size); }
  void abandon(const PayloadSlot& slot) override { link_->abandon(slot); }
  Result<Posted> send(std::span<const std::byte> message, const PayloadSlot& slot, bool urgent) override {
    return link_->send(message, slot, urgent);
  }

 private:
  const std::shared_ptr<Link> link_;
};

}  // namespace stagewire::backends::rdma
