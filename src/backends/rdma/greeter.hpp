// Datagrams by which two backends make their queue pairs known to each other: no port to bind, no address but
// the device's own. They may be lost, or come twice; who needs an answer sends again.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "backends/rdma/port.hpp"
#include "base/clock.hpp"

namespace stagewire::backends::rdma {

/// An unreliable-datagram queue pair on a port. Its completions come through the port's queues.
class Greeter {
 public:
  static Result<std::unique_ptr<Greeter>> create(std::shared_ptr<Port> port);

  std::uint32_t number() const { return pair_->qp_num; }
  const Port& port() const { return *port_; }

  // Of the worker's thread.
  /// Blocks while the network finds out the peer's hardware address (seconds, if nobody is
  /// there). `exhausted` when too many are on their way.
  Status send(const Rail& to, std::span<const std::byte> greeting);

  /// Looks for the peer's hardware address anew at the next send(): it may have moved.
  void forget(const Rail& rail);

  // Of the thread that makes progress.
  /// Every greeting that was posted has gone out.
  bool idle();
  /// After a failure the queue pair stands still: makes it go again, under the same number, which peers know.
  /// Tried again and again; `later` while it has not worked.
  enum class Health { good, later };
  Health mend(base::TimePoint now);
  void on_sent(const ibv_wc& completion);
  /// The greeting that came; empty for nonsense. Its bytes are valid until take_back().
  std::span<const std::byte> on_received(const ibv_wc& completion) const;
  void take_back(const ibv_wc& completion);

  /// The longest greeting.
  static constexpr std::size_t kMaxGreeting = 1024;
  static constexpr int kEntries = 80;  ///< of the port's completion queues

 private:
  static constexpr std::uint32_t kReceives = 64;
  static constexpr std::uint32_t kSends = 16;
  static constexpr std::size_t kHeader = 40;  ///< what verbs puts in front of a datagram
  static constexpr std::size_t kReceiveSize = 1088;
  static constexpr std::uint32_t kKey = 0x53574752;  // "SWGR": sorts out the datagrams of other programs
  static constexpr std::size_t kMaxPaths = 1024;

  explicit Greeter(std::shared_ptr<Port> port) : port_(std::move(port)) {}
  Status set_up();
  Status to_ready();
  Status fill();
  void note_failure(const ibv_wc& completion);
  bool is_of_now(const ibv_wc& completion) const { return completion.wr_id >> 32 == generation_; }
  Status post_receive(std::uint32_t index);
  std::byte* receive_buffer(std::uint64_t index) const {
    return memory_.get() + (index & 0xffffffff) * kReceiveSize;
  }
  std::byte* send_buffer(std::uint64_t index) const {
    return memory_.get() + kReceives * kReceiveSize + index * kMaxGreeting;
  }
  Result<ibv_ah*> path_to(const Rail& rail);

  const std::shared_ptr<Port> port_;
  std::unique_ptr<std::byte[]> memory_;
  Handle<ibv_mr> region_;
  Handle<ibv_qp> pair_;
  std::map<std::pair<std::vector<std::uint8_t>, std::uint32_t>, Handle<ibv_ah>> paths_;
  std::mutex mutex_;
  std::vector<std::uint32_t> free_;  ///< send buffers
  std::uint64_t generation_ = 0;     ///< counts the mendings; upper half of work requests' ids
  bool broken_ = false;
  base::TimePoint mend_at_{};
};

}  // namespace stagewire::backends::rdma
