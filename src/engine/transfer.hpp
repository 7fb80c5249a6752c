// Transfers under way, and the regions they touch.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.hpp"
#include "base/event.hpp"
#include "engine/peer.hpp"
#include "stagewire/engine.hpp"

namespace stagewire::engine {

class Core;

using base::EventList;

/// A region of ours, registered with every backend that can serve it.
struct LocalRegion {
  std::shared_ptr<BackendSet> backends;  ///< outlive the registrations
  MemoryRegion region;
  MemoryDesc desc;
  std::shared_ptr<void> memory;  ///< what the region lies in, when nobody else keeps it

  std::mutex mutex;
  /// Empty once it is deregistered: handles of ended transfers and sessions may keep this object for longer,
  /// but no peer is served any more.
  std::map<const Backend*, std::unique_ptr<Registration>> registrations;
  std::size_t in_flight = 0;  ///< transfers that may still touch it, those that timed out included
  EventList idle_waiters;

  void acquire();
  void release();
  /// nullptr when this backend cannot serve it, or it is deregistered. Valid as long as it is acquired.
  const Registration* registration(const Backend* backend);
  /// Whether no transfer may touch it: then the registrations are gone.
  bool deregister();
};

/// One transfer: one work request of many segments. Ends exactly once for its owner; quiesces (no byte moves
/// any more) exactly once, at the same time or later.
class TransferImpl final : public TransferStatus, public std::enable_shared_from_this<TransferImpl> {
 public:
  struct Request {
    Operation operation = Operation::read;
    std::shared_ptr<LocalRegion> local;
    PeerPtr peer;
    std::shared_ptr<RemoteRegion> remote;
    std::vector<Segment> segments;
    TransferOptions options;
    std::string what;  ///< a key or region, for messages
  };

  TransferImpl(std::weak_ptr<Core> core, Request request);
  /// One that failed before it began.
  TransferImpl(std::weak_ptr<Core> core, std::uint32_t id, Error error);

  TransferState state() const override { return state_.load(std::memory_order_acquire); }
  std::optional<Error> error() const override;
  std::string message() const override;
  Status wait_for(Milliseconds timeout) override;
  void on_end(std::function<void(const Status&)> callback) override;
  void cancel() override;
  Status wait_quiet(Milliseconds timeout) override;
  std::uint32_t id() const override { return id_; }

  Request& request() { return request_; }
  /// Ends it for the owner; false when it had ended.
  bool end(const Status& status);
  /// No byte will move any more: the region is released. Then `callback` of on_quiet() runs.
  void quiesce();
  /// Called once when the transfer has quiesced (at once, when it has).
  void on_quiet(std::function<void()> callback);
  bool posted = false;      ///< under the peer's mutex
  bool given_up = false;    ///< under the peer's mutex; not posted any more
  std::uint64_t timer = 0;  ///< under the peer's mutex

 private:
  std::string describe() const;
  bool wait_in(EventList& list, base::Event& event, Milliseconds timeout);

  const std::weak_ptr<Core> core_;
  Request request_;
  const std::uint32_t id_;
  std::atomic<TransferState> state_{TransferState::pending};
  mutable std::mutex mutex_;
  std::optional<Error> error_;
  EventList waiters_;
  std::vector<std::function<void(const Status&)>> callbacks_;
  bool quiet_ = false;
  EventList quiet_waiters_;
  std::function<void()> quiet_callback_;
};

/// The engine's transfers, regions and inbound notifications.
struct TransferTable {
  static constexpr std::size_t kMaxInbound = 65'536;  ///< notifications that nobody has popped, for each peer
  static constexpr std::size_t kMaxInboundPeers = 4096;

  struct Inbound {
    std::multiset<std::uint32_t> ids;
    std::multimap<std::uint32_t, base::Event*> waiters;
  };

  std::mutex mutex;
  std::unordered_map<std::uint64_t, std::shared_ptr<TransferImpl>> posted;  ///< by work request id
  EventList quiet_waiters;                                                  ///< for `posted` to become empty
  std::uint64_t next_work = 1;
  std::unordered_map<std::uint32_t, std::shared_ptr<LocalRegion>> regions;
  std::atomic<std::uint32_t> next_region{0};
  std::atomic<std::uint32_t> next_id{1};
  std::map<std::string, Inbound, std::less<>> inbound;  ///< by peer key
};

}  // namespace stagewire::engine
