// A reliable-connected queue pair: made, connected, filled, destroyed.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backends/rdma/port.hpp"

namespace stagewire::backends::rdma {

/// Not thread-safe: its link's lock guards it. Destroying it ends every transfer: afterwards no byte of it
/// moves.
class QueuePair {
 public:
  struct Depth {
    std::uint32_t sends = 0;
    std::uint32_t receives = 0;
    std::uint32_t segments = 1;  ///< of a work request
  };
  /// What a signalled work request stands for, itself and those before it that were not.
  struct Posting {
    std::uint32_t work_requests = 0;
    std::uint32_t frames = 0;
    std::uint64_t transfer = 0;
    std::uint64_t part = 0;  ///< of the transfer
  };

  static Result<std::unique_ptr<QueuePair>> create(std::shared_ptr<Port> port, const Depth& depth);
  ~QueuePair();
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  std::uint32_t number() const { return pair_->qp_num; }
  const Port& port() const { return *port_; }

  struct Remote {
    Rail rail;
    std::uint32_t number = 0;
    std::uint32_t sequence = 0;
    std::uint32_t reads_served = 1;
  };
  /// Blocks while the network finds out the peer's hardware address.
  Status connect(const Remote& remote, std::uint32_t own_sequence);
  /// Into the error state: what is queued comes back as flushed.
  void stop();

  /// Work requests that can be posted now.
  std::uint32_t room() const { return depth_.sends - used_; }
  /// A chain whose last request is signalled. All of it, or none.
  Status post(ibv_send_wr* first, const Posting& posting);
  Status post_receive(ibv_recv_wr* request);
  /// A signalled request, and all before it, has ended well.
  Posting take_completed();

 private:
  QueuePair(std::shared_ptr<Port> port, const Depth& depth)
      : port_(std::move(port)), depth_(depth), postings_(depth.sends) {}
  Status to_init();

  const std::shared_ptr<Port> port_;
  const Depth depth_;
  bool has_entries_ = false;
  Handle<ibv_qp> pair_;
  std::uint32_t used_ = 0;
  std::vector<Posting> postings_;  ///< a ring: each stands for a work request at least
  std::size_t first_posting_ = 0;
  std::size_t posting_count_ = 0;
};

}  // namespace stagewire::backends::rdma
