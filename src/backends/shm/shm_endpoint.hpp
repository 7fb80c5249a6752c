// Our end of a connection, as the engine sees it: owns the outbox.
#pragma once

#include "backends/shm/shm_backend.hpp"

namespace stagewire::backends::shm {

class ShmEndpoint final : public Endpoint {
 public:
  ShmEndpoint(ShmBackend& backend, std::shared_ptr<Outbox> outbox)
      : backend_(backend), outbox_(std::move(outbox)) {}
  ~ShmEndpoint() override {
    outbox_->close();
    backend_.forget(outbox_->id());
  }

  std::optional<Status> status() const override { return outbox_->status(); }
  Result<std::unique_ptr<RemoteRegion>> import(std::span<const std::byte> remote_key) override;
  Result<Posted> post(const WorkRequest& request) override;
  PayloadSlot reserve(std::size_t size) override { return outbox_->reserve(size); }
  void abandon(const PayloadSlot& slot) override { outbox_->abandon(slot); }
  Result<Posted> send(std::span<const std::byte> message, const PayloadSlot& slot, bool urgent) override {
    return outbox_->send(message, slot, urgent);
  }

 private:
  ShmBackend& backend_;
  const std::shared_ptr<Outbox> outbox_;
};

}  // namespace stagewire::backends::shm
