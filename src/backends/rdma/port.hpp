// One port of one RDMA device, opened: what in a multi-rail host is a rail.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/rdma/formats.hpp"
#include "backends/rdma/gid.hpp"
#include "backends/rdma/settings.hpp"
#include "backends/rdma/verbs.hpp"

namespace stagewire::backends::rdma {

/// The handles of verbs, each released once, in the order opposite to their making.
struct VerbsDeleter {
  const Verbs* verbs = nullptr;
  void operator()(ibv_context* context) const { verbs->close_device(context); }
  void operator()(ibv_pd* domain) const { verbs->dealloc_pd(domain); }
  void operator()(ibv_comp_channel* channel) const { verbs->destroy_comp_channel(channel); }
  void operator()(ibv_cq* queue) const { verbs->destroy_cq(queue); }
  void operator()(ibv_mr* region) const { verbs->dereg_mr(region); }
  void operator()(ibv_qp* pair) const { verbs->destroy_qp(pair); }
  void operator()(ibv_ah* handle) const { verbs->destroy_ah(handle); }
};
template <typename T>
using Handle = std::unique_ptr<T, VerbsDeleter>;

struct PortLimits {
  int queue_entries = 0;          ///< of a completion queue
  int work_requests = 0;          ///< of a queue pair
  int segments = 0;               ///< of a work request
  std::uint8_t reads_served = 0;  ///< by one queue pair at once
  std::uint8_t reads_asked = 0;
  std::uint64_t message_size = 0;
  std::uint64_t region_size = 0;
};

/// Thread-safe but for poll() and arm(), which are for the thread that makes progress. Two completion queues
/// serve all queue pairs: one for what was received, one for what was sent.
class Port {
 public:
  /// Opens the device and everything that all links share on it.
  static Result<std::shared_ptr<Port>> open(const Verbs& verbs, ibv_device* device, std::uint8_t number,
                                            const Settings& settings);

  const std::string& name() const { return name_; }
  const Verbs& verbs() const { return verbs_; }
  const Settings& settings() const { return settings_; }
  const PortLimits& limits() const { return limits_; }
  /// "mlx5_0:1: GID 3, RoCE v2, 10.0.0.1 (private), MTU 4096, not GID 0, RoCE v1, fe80::1 (link-local)".
  std::string describe() const;
  std::uint8_t number() const { return number_; }
  ibv_context* context() const { return context_.get(); }
  ibv_pd* domain() const { return domain_.get(); }
  ibv_cq* sent() const { return sent_.get(); }
  ibv_cq* received() const { return received_.get(); }
  int completion_fd() const { return channel_->fd; }
  int async_fd() const { return context_->async_fd; }
  /// How peers know it; without the greeter.
  Rail rail() const;
  ibv_mtu mtu() const { return mtu_; }
  bool ethernet() const { return ethernet_; }
  /// What its device has said last.
  bool active() const { return active_; }

  /// Reserves entries of the completion queues for a queue pair; false when they are all taken.
  bool take_entries(int count);
  void give_entries(int count) { entries_taken_.fetch_sub(count); }

  /// How to reach a peer's port.
  ibv_ah_attr path_to(const Rail& rail) const;
  Result<Handle<ibv_mr>> register_memory(void* address, std::size_t size, int access);
  /// Host memory, or a device's: as a dma-buf, else by its address, for which the vendor's peer-memory module
  /// has to be there. Blocks while pages are pinned.
  Result<Handle<ibv_mr>> register_region(const MemoryRegion& region, int access);

  /// Takes up to `most` completions; those that arm() had to take come first.
  std::size_t poll(bool of_sent, ibv_wc* completions, std::size_t most);
  /// Asks for an event at the next completion; `only_urgent`: of those received, only at one that its sender
  /// marked. False when there is a completion already.
  bool arm(bool only_urgent, bool of_sent_too);
  /// Takes the events that made completion_fd() readable.
  void take_events();
  /// The device's own events, since the last call: "port_down" and the like are logged here.
  /// The table of addresses is read again after any of them that may have changed it.
  struct Change {
    bool port_down = false, port_up = false, fatal = false;
  };
  Change take_async_events();

  static constexpr std::size_t kStash = 4;

 private:
  Port(const Verbs& verbs, const Settings& settings, std::uint8_t number)
      : verbs_(verbs), settings_(settings), number_(number) {}
  Status set_up(ibv_device* device);
  Status read_attributes();
  Status make_queues();
  Result<Handle<ibv_mr>> register_dma_buffer(const MemoryRegion& region, int access);
  Status choose_address();
  void refresh_address();
  std::vector<GidEntry> gid_table() const;

  const Verbs& verbs_;
  const Settings settings_;
  const std::uint8_t number_;
  std::string name_;
  PortLimits limits_;
  mutable std::mutex gid_mutex_;
  GidEntry gid_;                      ///< under gid_mutex_
  std::vector<GidEntry> other_gids_;  ///< the same
  int gid_entries_ = 0;
  bool ethernet_ = false;
  std::atomic<bool> active_{true};
  std::uint32_t lid_ = 0;
  ibv_mtu mtu_ = IBV_MTU_1024;
  int entries_ = 0;
  std::atomic<int> entries_taken_{0};

  Handle<ibv_context> context_;
  Handle<ibv_pd> domain_;
  Handle<ibv_comp_channel> channel_;
  Handle<ibv_cq> sent_;
  Handle<ibv_cq> received_;
  struct Stash {
    ibv_wc completions[kStash];
    std::size_t count = 0;
  };
  Stash stashed_sent_, stashed_received_;
};

/// "mlx5_0:1"
std::string port_name(std::string_view device, int port);
std::uint32_t bytes_of(ibv_mtu mtu);
ibv_mtu mtu_of(std::uint32_t bytes);

}  // namespace stagewire::backends::rdma
