// Processes of one host: regions in memfds that peers map, messages in rings of shared memory.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "backend/completion_queue.hpp"
#include "backends/shm/inbox.hpp"
#include "backends/shm/outbox.hpp"
#include "base/log.hpp"
#include "stagewire/backend.hpp"

namespace stagewire::backends::shm {

class ShmBackend final : public Backend {
 public:
  static Result<std::unique_ptr<Backend>> create(const BackendOptions& options);
  ShmBackend(const BackendOptions& options, const Geometry& geometry, const Address& address);
  ~ShmBackend() override;

  std::string_view name() const override { return "shm"; }
  std::string describe() const override { return "processes of one host, host memory"; }
  const Capabilities& capabilities() const override { return capabilities_; }
  std::span<const std::byte> address() const override { return packed_address_; }
  Status reaches(std::span<const std::byte> peer_address) const override;
  Result<std::unique_ptr<Registration>> register_region(const MemoryRegion& region, Access access) override;
  Result<std::unique_ptr<Endpoint>> connect(std::span<const std::byte> peer_address) override;
  std::size_t progress(EventSink& sink, bool messages_only) override;
  int wait_fd() const override { return epoll_.fd(); }
  bool arm() override;
  void want_everything(bool on) override;

  /// Called by the endpoint's destructor.
  void forget(std::uint32_t outbox);

 private:
  static constexpr std::size_t kMaxInboxes = 1024;
  static constexpr std::size_t kMessagesPerTurn = 256;  // of one peer, before the next one has its turn

  Status open();
  void disarm();
  std::size_t handle_events(EventSink& sink);
  std::size_t accept_peers();
  std::size_t deliver_messages(EventSink& sink);
  std::size_t send_late_notifications();
  Inbox* find_inbox(std::uint32_t id);
  std::shared_ptr<Outbox> find_outbox(std::uint32_t id);
  void drop(std::uint32_t inbox, EventSink& sink, const Error& reason);

  const std::string engine_key_;
  const Geometry geometry_;
  const Address address_;
  const std::vector<std::byte> packed_address_;
  const Capabilities capabilities_;
  const std::shared_ptr<RegionTable> regions_;

  EpollSet epoll_;
  backend::WakeEvent wake_;
  backend::CompletionQueue completions_{wake_};
  std::atomic<std::size_t> late_notifications_{0};
  std::atomic<bool> wants_everything_{false};

  // Of the thread that calls progress() or arm().
  base::UniqueFd listener_;
  bool accept_again_ = false;  // accepting failed for want of something; epoll will not report it again
  bool armed_ = false;
  std::uint32_t next_inbox_ = 1;
  std::vector<std::unique_ptr<Inbox>> inboxes_;
  base::LogLimiter dropped_log_;

  std::mutex outboxes_mutex_;
  std::uint32_t next_outbox_ = 1;
  std::map<std::uint32_t, std::shared_ptr<Outbox>> outboxes_;
  backend::Worker worker_;  // last: its jobs use what is above
};

}  // namespace stagewire::backends::shm
