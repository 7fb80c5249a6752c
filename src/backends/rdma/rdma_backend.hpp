// Between hosts: one-sided reads and writes, and messages, over InfiniBand or RoCE.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "backend/completion_queue.hpp"
#include "backend/worker.hpp"
#include "backends/rdma/greeter.hpp"
#include "backends/rdma/link.hpp"
#include "backends/rdma/port.hpp"
#include "backends/rdma/registration.hpp"
#include "backends/rdma/router.hpp"
#include "base/log.hpp"
#include "base/unique_fd.hpp"
#include "stagewire/backend.hpp"

namespace stagewire::backends::rdma {

class RdmaBackend final : public Backend {
 public:
  static Result<std::unique_ptr<Backend>> create(const BackendOptions& options);
  ~RdmaBackend() override;

  std::string_view name() const override { return "rdma"; }
  std::string describe() const override;
  const Capabilities& capabilities() const override { return capabilities_; }
  std::span<const std::byte> address() const override { return packed_address_; }
  Status reaches(std::span<const std::byte> peer_address) const override;
  Result<std::unique_ptr<Registration>> register_region(const MemoryRegion& region, Access access) override;
  Result<std::unique_ptr<Endpoint>> connect(std::span<const std::byte> peer_address) override;
  std::size_t progress(EventSink& sink, bool messages_only) override;
  int wait_fd() const override { return epoll_.get(); }
  bool arm() override;
  void want_everything(bool on) override { wants_everything_.store(on); }

 private:
  static constexpr std::size_t kMaxCalledLinks = 1024;

  RdmaBackend(const BackendOptions& options, Settings settings, std::vector<std::shared_ptr<Port>> ports);
  Status open();
  Status watch(int fd, std::uint32_t what);
  void take_events();
  void take_device_events();
  std::size_t poll_port(std::size_t port, EventSink& sink);
  void handle_greeting(std::span<const std::byte> bytes);
  void handle_call(const Call& call);
  std::shared_ptr<Link> find_link(std::uint64_t id);
  std::vector<std::shared_ptr<Link>> all_links();
  std::size_t tend_links(EventSink& sink, bool tick);
  void tend_greeters();
  void set_timer(base::Duration interval);
  void leave_all();
  bool greetings_are_out();

  const std::string engine_key_;
  const Settings settings_;
  const std::vector<std::shared_ptr<Port>> ports_;
  std::vector<std::unique_ptr<Greeter>> greeters_;
  Address address_;
  std::vector<std::byte> packed_address_;
  Capabilities capabilities_;
  const std::shared_ptr<RegionTable> regions_;

  base::UniqueFd epoll_;
  base::UniqueFd timer_;
  backend::WakeEvent wake_;
  backend::CompletionQueue completions_{wake_};
  Router<Link> router_;
  std::atomic<int> awaiting_sent_{0};
  std::atomic<bool> attention_{false};
  std::atomic<int> greetings_{0};
  std::atomic<bool> wants_everything_{false};

  // Of the thread that calls progress() or arm().
  base::Duration timer_interval_{0};
  base::TimePoint next_tick_{};
  bool greeter_failed_ = false;
  base::LogLimiter refused_log_;

  std::mutex links_mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Link>> links_;  ///< by their id
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t>
      called_;  ///< by the caller's instance and id
  std::unique_ptr<LinkHost> host_;
  backend::Worker worker_;  ///< last: its jobs use what is above
};

}  // namespace stagewire::backends::rdma
