// Our end of a connection that we made to a peer: messages to it, imports of its regions, copies from and to
// them.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backend/completion_queue.hpp"
#include "backend/worker.hpp"
#include "backends/shm/epoll_set.hpp"
#include "backends/shm/imported_region.hpp"
#include "backends/shm/ring_writer.hpp"
#include "backends/shm/unix_socket.hpp"
#include "stagewire/backend.hpp"

namespace stagewire::backends::shm {

/// Thread-safe. Shared by the endpoint that owns it and a progress() that is looking at it.
class Outbox {
 public:
  /// What all outboxes of a backend share.
  struct Host {
    const Address& address;
    EpollSet& epoll;
    backend::Worker& worker;
    backend::CompletionQueue& completions;
    std::atomic<std::size_t>& late_notifications;  ///< how many wait for room, over all outboxes
  };

  static Result<std::shared_ptr<Outbox>> connect(const Host& host, std::uint32_t id, const Address& peer);
  Outbox(const Host& host, std::uint32_t id, const Address& peer, base::UniqueFd socket);
  ~Outbox();
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  std::uint32_t id() const { return id_; }

  // Of the thread that calls progress(). Both return the number of events.
  std::size_t serve_socket();
  std::size_t send_late_notifications();

  // The endpoint's.
  std::optional<Status> status() const;
  Result<std::shared_ptr<Import>> import(std::span<const std::byte> remote_key);
  Result<Posted> post(const WorkRequest& request, const Import& remote);
  PayloadSlot reserve(std::size_t size);
  void abandon(const PayloadSlot& slot);
  Result<Posted> send(std::span<const std::byte> message, const PayloadSlot& slot, bool urgent);
  /// Ends everything with `closed`; afterwards nothing of ours runs or touches the caller's memory.
  void close();

  // Of the copy job.
  /// The copy of request `id` has ended: notifies the peer when asked to, then completes.
  void finish(std::uint64_t id, std::optional<std::uint32_t> notification);
  void abandoned(std::uint64_t id);
  bool lost() const { return phase_.load(std::memory_order_acquire) == Phase::lost; }
  void imported(Import& import, std::shared_ptr<RegionMapping> mapping);

 private:
  enum class Phase { connecting, up, lost };
  struct LateNotification {
    std::uint64_t id = 0;
    std::uint32_t value = 0;
  };
  static constexpr std::size_t kMaxLateNotifications = 256;
  static constexpr std::size_t kMaxImportsUnderWay = 1024;

  Error reason() const;
  void fail(const Error& reason);
  Error corrupt(const std::string& what) const;
  Status handle(Packet packet);
  Status handle(const Welcome& welcome, Packet& packet);
  Status handle(const ImportAnswer& answer, Packet& packet);
  void start_mapping(const std::shared_ptr<Import>& import, base::UniqueFd file);
  Status flush_requests();
  void ring();
  RingWriter::Put put_notification(std::uint32_t value);
  /// True: in the ring. False: it waits, a completion will follow.
  Result<bool> notify(std::uint64_t id, std::uint32_t value);
  bool many_late();

  const Host host_;
  const std::uint32_t id_;
  const Address peer_;
  const base::UniqueFd socket_;
  std::atomic<Phase> phase_{Phase::connecting};

  mutable std::mutex control_mutex_;  // never taken with ring_mutex_ held
  std::optional<Error> error_;
  std::map<std::uint64_t, std::shared_ptr<Import>> imports_;  // not answered yet, by request
  std::uint64_t next_request_ = 1;
  std::deque<std::vector<std::byte>> requests_;                     // not sent yet
  std::map<std::uint64_t, std::weak_ptr<RegionMapping>> mappings_;  // by region

  std::mutex ring_mutex_;
  base::Mapping inbox_;
  base::UniqueFd doorbell_;
  std::optional<RingWriter> writer_;  // set before phase_ becomes `up`, constant then
  std::deque<LateNotification> late_;
};

}  // namespace stagewire::backends::shm
