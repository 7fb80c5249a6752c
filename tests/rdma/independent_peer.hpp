// An engine of MORI-IO's as its protocol is described, for tests: it shares no code with the library, and
// speaks to libibverbs (or what STAGEWIRE_IBVERBS names) and to TCP by itself.
#pragma once

#include <infiniband/verbs.h>
#undef ibv_query_port
#undef ibv_reg_mr

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace stagewire::rdma_test {

using Octets = std::vector<std::uint8_t>;

/// Everything throws std::runtime_error with the reason.
class IndependentPeer {
 public:
  explicit IndependentPeer(std::string key);
  ~IndependentPeer();
  IndependentPeer(const IndependentPeer&) = delete;
  IndependentPeer& operator=(const IndependentPeer&) = delete;

  /// `posts_receives` false: as MORI-IO with enable_notification off.
  void listen(bool posts_receives = true);
  /// Registers memory under this id; the packed MemoryDesc.
  Octets add_memory(std::uint32_t id, void* data, std::size_t size);
  /// The packed EngineDesc.
  Octets engine_desc() const;
  int port() const { return port_; }

  struct Pair {
    ibv_qp* qp = nullptr;
    ibv_cq* cq = nullptr;
    std::uint32_t peer_device = 0;
  };
  struct Region {
    std::uint64_t address = 0;
    std::uint32_t rkey = 0;
    std::uint64_t size = 0;
  };
  /// What a packed EngineDesc says.
  struct Engine {
    std::string key, host;
    int port = 0;
  };
  static Engine read_engine(const Octets& desc);
  /// Id, address and size of a packed MemoryDesc.
  struct Memory {
    std::uint32_t id = 0;
    std::uint64_t address = 0, size = 0;
  };
  static Memory read_memory(const Octets& desc);

  Pair connect(const Engine& engine);
  Region ask_region(const Engine& engine, std::uint32_t device, std::uint32_t id);
  /// One RDMA write or read over the pair, waited for: the status of its completion.
  ibv_wc_status move(const Pair& pair, bool writes, std::uint32_t local_id, std::size_t local_offset,
                     const Region& region, std::size_t remote_offset, std::size_t size);
  /// Over all pairs, as it follows a transfer.
  void notify(const std::vector<Pair>& pairs, std::uint64_t transfer);
  void notify_one(const Pair& pair, std::uint64_t transfer, std::int32_t index, std::int32_t count);
  void close_pair(const Pair& pair);

  /// Frames of its own making, for those that are no MORI-IO's: what came back, empty when nothing did.
  static Octets exchange(const Engine& engine, const Octets& frame);
  Octets register_frame(const Pair& pair) const;

  /// Waits for a notification at a pair that was accepted or made here; false after 10 s.
  bool wait_notified(std::uint64_t transfer, std::int32_t count);
  std::size_t accepted() const { return accepted_count_; }
  /// Stops the queue pairs that were accepted: transfers over them fail at the other end.
  void break_accepted();
  void forget_memory(std::uint32_t id);
  /// Asks the device for something, so that a sanitizer sees an order between what a simulated one does and
  /// the caller: it sees none in ZeroMQ's threads.
  void meet_device() const;

 private:
  struct Verbs;
  Pair make_pair(bool posts_receives);
  void connect_pair(const Pair& pair, std::uint32_t number, std::uint32_t lid, const std::uint8_t* gid);
  void serve();
  Octets answer(const Octets& frame);
  void collect(const Pair& pair);
  ibv_wc wait_send(const Pair& pair);

  const std::string key_;
  const Verbs* verbs_ = nullptr;
  ibv_context* context_ = nullptr;
  ibv_pd* domain_ = nullptr;
  ibv_port_attr port_attributes_{};
  union ibv_gid gid_ {};
  int gid_index_ = 0;
  int listener_ = -1;
  int port_ = 0;
  bool posts_receives_ = true;
  std::atomic<bool> stopping_{false};
  std::atomic<std::size_t> accepted_count_{0};
  std::thread server_;
  std::mutex mutex_;
  std::map<std::uint32_t, ibv_mr*> memory_;
  std::vector<Pair> pairs_;
  std::vector<Pair> accepted_;
  Octets slots_;
  ibv_mr* slots_region_ = nullptr;
  std::size_t next_slot_ = 0;
  std::map<std::uint64_t, std::pair<std::int32_t, std::int32_t>>
      notified_;  ///< id: how many came, of how many
};

}  // namespace stagewire::rdma_test
