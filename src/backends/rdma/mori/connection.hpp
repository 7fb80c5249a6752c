// As the initiator: queue pairs with one of MORI-IO's engines, for memory in one place there, and the reads
// and writes over them.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/rdma/mori/hub.hpp"
#include "backends/rdma/mori/pair.hpp"
#include "stagewire/descriptor.hpp"

namespace stagewire::backends::rdma::mori {

class Connection;

/// A region of the peer's, as it is being asked for, and then as it may be used.
struct Import {
  MemoryDesc desc;
  std::weak_ptr<Connection> connection;
  // Under the hub's mutex:
  std::optional<Status> status;
  std::uint64_t address = 0;
  std::array<std::uint32_t, kMaxRails> keys{};  ///< by the peer's ports, in the connection's order
  std::size_t unanswered = 0;
};

/// All of it under the hub's mutex. A queue pair that fails takes the whole connection with it: the imports
/// end with the reason, and whoever wants to go on imports anew, over another connection.
class Connection final : public PairOwner, public std::enable_shared_from_this<Connection> {
 public:
  Connection(const std::shared_ptr<Hub>& hub, EngineDesc peer, Places places)
      : hub_(*hub),
        peer_(std::move(peer)),
        places_(places),
        transfers_(hub->settings, hub->completions, notify_peer()) {}

  void start();
  void import(const std::shared_ptr<Import>& import);
  Result<Posted> post(const WorkRequest& request, const Import& import);
  /// Afterwards no byte of a transfer moves.
  void end(const Error& reason);
  bool ended() const { return ended_; }

  void on_sent(const ibv_wc& completion, std::size_t pair) override;
  void on_received(const ibv_wc& completion, std::size_t pair) override;

 private:
  struct Outstanding {  ///< notifications of a transfer
    std::size_t unsent = 0;
    std::size_t unacknowledged = 0;
    std::uint32_t id = 0;
  };

  Transfers::Moved notify_peer();
  void run(Status (Connection::*work)(), void (Connection::*then)());
  Status make_pairs();     // on the worker, without the mutex
  Status connect_pairs();  // the same
  void register_pairs();
  void registered(std::size_t pair, const Result<Message>& answer);
  void came_up();
  void ask_keys(const std::shared_ptr<Import>& import);
  void answered(const std::shared_ptr<Import>& import, std::size_t place, const Result<Message>& answer);
  void send_notifications();
  void pump();
  std::string name() const { return peer_.key + " at " + peer_.host + ":" + std::to_string(peer_.port); }

  Hub& hub_;
  const EngineDesc peer_;
  const Places places_;
  std::vector<std::shared_ptr<Pair>> pairs_;  ///< the worker keeps them while it connects them
  std::vector<EndpointHandle> peer_pairs_;
  std::vector<std::uint32_t> peer_ports_;  ///< that its queue pairs are on, each once
  std::vector<std::size_t> port_places_;   ///< for each pair: in peer_ports_
  std::size_t unregistered_ = 0;
  std::vector<std::shared_ptr<Import>> imports_;
  std::vector<Lane> lanes_;
  Transfers transfers_;
  std::array<Outstanding, Transfers::kMost> outstanding_{};
  std::vector<Transfers::Serial> to_notify_;
  bool starved_ = false;
  bool ended_ = false;
};

}  // namespace stagewire::backends::rdma::mori
