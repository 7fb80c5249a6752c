// Reads, writes and notifications between us and the engines of MORI-IO, by their protocol: either may begin.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <vector>

#include "backends/rdma/mori/acceptor.hpp"
#include "backends/rdma/mori/connection.hpp"
#include "base/unique_fd.hpp"
#include "stagewire/backend.hpp"

namespace stagewire::backends::rdma::mori {

class MoriBackend final : public Backend {
 public:
  static Result<std::unique_ptr<Backend>> create(const BackendOptions& options);
  ~MoriBackend() override;

  std::string_view name() const override { return "mori"; }
  std::string describe() const override;
  const Capabilities& capabilities() const override { return capabilities_; }
  /// An EngineDesc as MORI-IO has it.
  std::span<const std::byte> address() const override { return packed_address_; }
  Status reaches(std::span<const std::byte> peer_address) const override;
  Result<std::unique_ptr<Registration>> register_region(const MemoryRegion& region, Access access) override;
  Result<std::unique_ptr<Endpoint>> connect(std::span<const std::byte> peer_address) override;
  std::size_t progress(EventSink& sink, bool messages_only) override;
  int wait_fd() const override { return epoll_.get(); }
  bool arm() override;
  void want_everything(bool) override {}

 private:
  MoriBackend(const BackendOptions& options, Settings settings, std::vector<std::shared_ptr<Port>> ports);
  Status open(const BackendOptions& options);
  Status watch(int fd, std::uint32_t events);
  void take_events();
  void poll_port(std::size_t port);
  void keep_time();

  const Settings settings_;
  const std::vector<std::shared_ptr<Port>> ports_;
  Capabilities capabilities_;
  std::vector<std::byte> packed_address_;
  base::UniqueFd epoll_;
  base::UniqueFd timer_;
  base::Duration interval_{0};  ///< of the timer; 0 = it stands
  backend::WakeEvent wake_;
  backend::CompletionQueue completions_{wake_};
  backend::Worker worker_;
  std::shared_ptr<Hub> hub_;  ///< regions share it
  Acceptor acceptor_;
};

/// Our end of what we begin with one of MORI-IO's engines.
class MoriEndpoint final : public Endpoint {
 public:
  MoriEndpoint(std::shared_ptr<Hub> hub, EngineDesc peer) : hub_(std::move(hub)), peer_(std::move(peer)) {}
  ~MoriEndpoint() override;

  /// Always: connections begin when they are needed.
  std::optional<Status> status() const override { return Status(); }
  Result<std::unique_ptr<RemoteRegion>> import(std::span<const std::byte> remote_key) override;
  Result<Posted> post(const WorkRequest& request) override;
  PayloadSlot reserve(std::size_t) override { return {}; }
  void abandon(const PayloadSlot&) override {}
  Result<Posted> send(std::span<const std::byte> message, const PayloadSlot& slot, bool urgent) override;

 private:
  const std::shared_ptr<Hub> hub_;
  const EngineDesc peer_;
  std::map<Places, std::shared_ptr<Connection>> connections_;  ///< under the hub's mutex
};

}  // namespace stagewire::backends::rdma::mori
