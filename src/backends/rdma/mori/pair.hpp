// A queue pair with one of MORI-IO's, whoever asked for it: both ends may write, read and notify over it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "backends/rdma/mori/messages.hpp"
#include "backends/rdma/transfers.hpp"

namespace stagewire::backends::rdma::mori {

/// Not thread-safe. Destroying it ends everything that moves over it.
class Pair {
 public:
  /// Not connected yet, but ready for notifications. Blocks while pages are pinned.
  static Result<std::unique_ptr<Pair>> create(const std::shared_ptr<Port>& port, std::uint32_t sends);
  ~Pair();

  const std::shared_ptr<QueuePair>& queue() const { return queue_; }
  std::uint32_t number() const { return queue_->number(); }
  const Port& port() const { return *port_; }
  /// What the other end has to know of this one.
  EndpointHandle handle() const;
  /// Blocks while the network finds out the peer's hardware address.
  Status connect(const EndpointHandle& peer);

  /// What came, and makes room for another one. `corrupt` for something that is no notification.
  Result<Notification> take(const ibv_wc& completion);
  /// Behind everything that was posted before. The completion's posting names the transfer, with `frames` 1.
  Status notify(Transfers::Serial transfer, const Notification& notification);
  /// A write of no bytes: fails when the peer's queue pair is not there any more. The posting is of nothing.
  Status probe();

 private:
  // An initiator of MORI-IO's waits for room without end, a moment at a time, and loses nothing.
  static constexpr std::uint32_t kReceives = 256;
  // One for each transfer that can be under way.
  static constexpr std::uint32_t kNotifications = Transfers::kMost;

  explicit Pair(std::shared_ptr<Port> port) : port_(std::move(port)) {}
  Status set_up(std::uint32_t sends);
  Status post_receive(std::uint32_t index);
  std::byte* receive_slot(std::uint64_t index) const { return slots_.get() + index * kNotificationSize; }
  std::byte* send_slot(std::uint64_t index) const { return receive_slot(kReceives + index); }

  const std::shared_ptr<Port> port_;
  std::unique_ptr<std::byte[]> slots_;
  Handle<ibv_mr> region_;
  std::shared_ptr<QueuePair> queue_;  ///< before the slots
};

}  // namespace stagewire::backends::rdma::mori
