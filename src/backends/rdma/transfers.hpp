// Reads and writes of a peer's memory on their way: cut into work requests, spread over queue pairs, begun
// again over others when theirs have broken.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/completion_queue.hpp"
#include "backends/rdma/queue_pair.hpp"

namespace stagewire::backends::rdma {

/// A queue pair that carries data, and which of the keys of our memory and of the peer's are good for it.
struct Lane {
  std::shared_ptr<QueuePair> pair;
  std::size_t local_key = 0;
  std::size_t remote_key = 0;
};

/// Not thread-safe: its owner's lock guards it. What is posted again and again allocates nothing: the records
/// of transfers that have ended are used for the next ones.
class Transfers {
 public:
  /// Names a transfer until it has ended; never 0. It is the `wr_id` of its work requests.
  using Serial = std::uint64_t;
  /// Every byte of it is there, and the peer is to be told: the owner calls finish() when it has been.
  using Moved = std::function<void(Serial, std::uint32_t notification)>;

  struct Order {
    std::uint64_t id = 0;
    Operation operation = Operation::read;
    std::byte* local = nullptr;
    std::span<const std::uint32_t> local_keys;
    std::uint64_t remote = 0;
    std::span<const std::uint32_t> remote_keys;
    std::span<const Segment> segments;
    std::optional<std::uint32_t> notification;
  };

  /// That can be under way; a serial is different from all others' modulo this.
  static constexpr std::size_t kMost = 256;
  /// Of one work request, so what a queue pair for them has to allow.
  static std::uint32_t segments_of(const PortLimits& limits) {
    return std::clamp(static_cast<std::uint32_t>(std::max(1, limits.segments)), 1U, kMaxSegments);
  }

  Transfers(const Settings& settings, backend::CompletionQueue& completions, Moved moved)
      : settings_(settings), completions_(completions), moved_(std::move(moved)) {}

  std::size_t count() const { return count_; }
  bool full() const { return count_ >= kMost; }
  /// Unless it is full. pump() posts it.
  void add(const Order& order);
  /// Posts what there is room for, the oldest first. An error: a queue pair does not take anything any more.
  Status pump(std::span<const Lane> lanes);

  /// These work requests have moved their bytes.
  void part_ended(const QueuePair::Posting& posting);
  /// The completion of a work request says that the peer's device, or ours, has refused it: the transfer
  /// ends with that when its queue pairs are gone. Other failures blame nobody. `who` is for messages.
  void blame(const ibv_wc& completion, const std::string& who, const std::string& text);
  void finish(Serial serial, const Status& status);

  /// The old queue pairs are gone: no byte of what was blamed moves any more.
  void finish_blamed();
  /// Over other queue pairs everything goes on from its first byte that is not known to be there. What is all
  /// there only has its notification to wait for, which goes its own way.
  void restart();
  void fail_all(const Error& reason);

 private:
  static constexpr std::uint32_t kMaxChain = 64;
  static constexpr std::uint32_t kMaxSegments = 4;

  /// The bytes of one posting, by where they begin.
  struct Part {
    std::uint64_t number = 0;
    std::size_t segment = 0;
    std::uint64_t offset = 0;
  };
  struct Transfer {
    Serial serial = 0;  ///< 0: free for another one
    std::uint64_t id = 0;
    Operation operation = Operation::read;
    std::byte* local = nullptr;
    std::uint64_t remote = 0;
    std::array<std::uint32_t, kMaxRails> local_keys{};
    std::array<std::uint32_t, kMaxRails> remote_keys{};
    std::vector<Segment> segments;  ///< none of no bytes
    std::uint64_t size = 0;         ///< of all segments
    std::optional<std::uint32_t> notification;
    std::size_t segment = 0;   ///< the next one to be posted
    std::uint64_t offset = 0;  ///< in it
    std::uint64_t next_part = 0;
    std::vector<Part> under_way;
    bool moved = false;           ///< every byte is there; the notification may be under way
    std::optional<Error> failed;  ///< as the device has said
  };
  /// Work requests in the making.
  struct Chain {
    std::array<ibv_send_wr, kMaxChain> requests;
    std::array<ibv_sge, kMaxChain * kMaxSegments> segments;
  };

  Transfer* find(Serial serial);
  Result<bool> post_parts(Transfer& transfer, std::span<const Lane> lanes);
  std::uint32_t build_chain(Transfer& transfer, const Lane& lane, std::size_t lanes, Chain& chain) const;
  void add_segments(Transfer& transfer, std::uint64_t piece, std::uint32_t most, std::uint32_t key,
                    ibv_send_wr& request) const;
  void advanced(Transfer& transfer);
  std::vector<Serial> all() const;

  const Settings& settings_;
  backend::CompletionQueue& completions_;
  const Moved moved_;
  std::vector<Transfer> transfers_;  ///< by the serial's last byte
  std::vector<std::size_t> free_;    ///< of them
  std::size_t count_ = 0;
  std::vector<Serial> unposted_;  ///< in order
  std::uint64_t uses_ = 0;
};

}  // namespace stagewire::backends::rdma
