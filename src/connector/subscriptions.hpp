// The receiving side: keys that somebody here wants, and how what arrives becomes a delivery.
//
// A wanted key is watched at its sender once, whoever waits for it and however often; what arrives stays here
// until it is taken, so that looking again costs no round trip. The bytes are leased, read, or came with the
// message.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "connector/holders.hpp"
#include "connector/latency.hpp"
#include "connector/publications.hpp"
#include "engine/core.hpp"

namespace stagewire::connector {

class OriginalSenders;

/// How a receiver wants its payloads.
enum class RouteWish { automatic, eager, lease, read, write };

/// Blocks that a peer may still write into although nobody waits for them any more (R01). One ends when the
/// writer says so, or when every connection over which it may come is closed by the peer.
struct Quarantine {
  memory::Pool::Offset block = 0;
  std::set<EventSink::PeerToken> suspects;
};

struct ReceiverCounters {
  std::uint64_t gets = 0;
  std::uint64_t bytes = 0;
  std::uint64_t errors = 0;
  std::uint64_t timeouts = 0;
  std::uint64_t late = 0;
  RouteCounters eager, lease, read, write;
  std::string route_reason;
};

class Subscriptions {
 public:
  Subscriptions(std::shared_ptr<engine::Core> core, std::shared_ptr<memory::Pool> pool,
                std::shared_ptr<engine::LocalRegion> region, RouteWish wish, base::Duration ttl,
                base::Duration original_timeout);
  ~Subscriptions();

  using Callback = std::function<void(Result<Delivery>)>;

  /// Waits up to the deadline; `only_look`: the deadline bounds the first round trip only.
  Result<Delivery> get(std::string_view key, const engine::DialPtr& dial, std::optional<std::uint64_t> size,
                       base::Deadline deadline, bool only_look);
  void get_async(std::string_view key, const engine::DialPtr& dial, std::optional<std::uint64_t> size,
                 base::Deadline deadline, Callback callback);
  void watch(std::string_view key, const engine::DialPtr& dial, std::function<void(Status)> callback);
  /// `dial`: where the key would be, if that is known: the sender is told even when nothing is under way.
  void abandon(std::string_view key, const engine::DialPtr& dial);
  void close();
  /// Calls back what asynchronous gets wait for. Without a lock.
  void run_callbacks();

  void on_met(const engine::PeerPtr& peer, const engine::DialPtr& dial);
  void on_original(const engine::DialPtr& dial);
  void on_original_answer(const engine::DialPtr& dial, std::span<const std::byte> bytes);
  void on_disconnected(const engine::DialPtr& dial);
  void on_ready(const engine::PeerPtr& peer, wire::Ready&& ready, MessagePayload&& payload);
  void on_gone(const engine::PeerPtr& peer, const wire::Gone& gone);
  void on_pull_done(const engine::PeerPtr& peer, const wire::PullDone& done);
  void on_lost(const engine::PeerPtr& peer, const Error& reason);
  void on_connection_ended(EventSink::PeerToken connection);

  ReceiverCounters counters() const;
  const LatencyHistogram& latency() const { return latency_; }

 private:
  friend class OriginalSenders;
  enum class State { waiting, ready, failed };
  /// How pressing a want is: the sender need not wake for it; it should; it should also say so when there is
  /// nothing.
  enum class Need { ahead, wait, look };

  /// One wanted key. Everything under mutex_. Used again for another key when nobody else has it.
  struct Wanted {
    std::string key;
    engine::DialPtr dial;
    State state = State::waiting;
    engine::PeerPtr peer;     ///< watched there; nullptr = not yet
    std::uint64_t watch = 0;  ///< what answers another watch of the key is late
    Need need = Need::wait;
    bool answered = false;  ///< the sender said, for Need::look, that it is not there yet
    bool looked = false;    ///< somebody has waited for that answer before
    bool original = false;  ///< asked for at a sender of the original's kind
    wire::Ready ready;      ///< without its key
    MessagePayload payload;
    std::optional<Delivery> delivery;  ///< ready already: from a sender of the original's kind
    std::optional<Error> error;
    base::TimePoint last_asked;
    base::EventList waiters;
    Callback callback;                  ///< of get_async
    std::optional<std::uint64_t> size;  ///< that its metadata names
    base::Deadline deadline = base::Deadline::never();
    std::function<void(Status)> watcher;

    /// The payload came with the message.
    bool is_eager() const { return !delivery && ready.lease == 0; }
    /// As new, but for its memory. Of an eager one.
    void clear();
  };
  using WantedPtr = std::shared_ptr<Wanted>;

  /// A payload that was taken from the table and becomes a delivery.
  struct Taken {
    std::string key;
    engine::PeerPtr peer;
    wire::Ready ready;
    MessagePayload payload;
    std::optional<Delivery> delivery;
  };

  /// A block that a peer was asked to write into.
  struct Landing {
    Taken taken;
    memory::Pool::Offset block = 0;
    std::uint64_t timer = 0;
    Callback callback;  ///< empty once the deadline has passed: the block is in quarantine
  };

  // subscriptions.cc, with mutex_ held:
  WantedPtr make_wanted();
  void forget(WantedPtr& wanted);
  WantedPtr want(std::string_view key, const engine::DialPtr& dial, Need need);
  void send_watch(const WantedPtr& wanted);
  void settle(const WantedPtr& wanted);
  void fail(const WantedPtr& wanted, const Error& error);
  Taken move_out(Wanted& wanted);
  Delivery take_eager(Wanted& wanted);
  Error take_error(Wanted& wanted);
  Error waited_in_vain(const Wanted& wanted);
  Status check_size(const Wanted& wanted, std::optional<std::uint64_t> size);
  // and without it:
  void look_for_watched(std::string_view key);
  void sweep();
  void collect_idle(std::vector<Taken>& unwanted);

  // calling_back.cc, with mutex_ held:
  void call_back(const WantedPtr& wanted);
  void look_at(base::Deadline deadline);
  // and without it:
  void check_deadlines();

  // receiving.cc, without mutex_:
  Result<Delivery> receive(Taken taken, base::Deadline deadline);
  void receive_async(Taken taken, base::Deadline deadline, Callback callback);
  Result<std::shared_ptr<RemoteRegion>> sender_pool(const Taken& taken);
  void when_mapped(const Taken& taken, const std::shared_ptr<RemoteRegion>& region, base::Deadline deadline,
                   std::function<void(const Status&)> callback);
  Status check_bounds(const Taken& taken, const RemoteRegion& region);
  bool take_lease(const Taken& taken, const RemoteRegion& region);
  Delivery lease(const Taken& taken, std::shared_ptr<RemoteRegion> region);
  Result<Delivery> read(const Taken& taken, const std::shared_ptr<RemoteRegion>& region,
                        base::Deadline deadline);
  std::shared_ptr<engine::TransferImpl> make_read(const Taken& taken,
                                                  const std::shared_ptr<RemoteRegion>& region,
                                                  memory::Pool::Offset block, base::Deadline deadline);
  Result<Delivery> finish_read(const Taken& taken, memory::Pool::Offset block,
                               engine::TransferImpl& transfer);
  void read_async(Taken taken, const std::shared_ptr<RemoteRegion>& region, base::Deadline deadline,
                  Callback callback);
  void give_back(const Taken& taken, bool consumed);
  void count(const Delivery& delivery);  // with mutex_ held
  Delivery counted(Delivery delivery);
  Error counted(const Error& error);
  std::shared_ptr<std::atomic<std::uint64_t>> leased_of(engine::Peer* peer);

  // granting.cc, without mutex_:
  void write_async(Taken taken, base::Deadline deadline, Callback callback);
  void pull_deadline_passed(std::uint64_t id);
  Result<std::shared_ptr<engine::LocalRegion>> landing_region();
  void quarantine(memory::Pool::Offset block, std::set<EventSink::PeerToken> suspects);
  void writer_lost(engine::Peer* peer);
  void end_pulls(const Error& error);

  const std::shared_ptr<engine::Core> core_;
  const std::shared_ptr<memory::Pool> pool_;
  const std::shared_ptr<engine::LocalRegion> region_;
  const RouteWish wish_;
  const base::Duration ttl_;  ///< zero = for ever

  mutable std::mutex mutex_;
  bool closed_ = false;
  base::ReusingStringMap<WantedPtr> wanted_;
  std::vector<WantedPtr> spare_;  ///< nobody has them
  std::vector<WantedPtr> due_;    ///< to be called back from called_back_ on; not in wanted_ any more
  std::size_t called_back_ = 0;
  base::Deadline next_look_ = base::Deadline::never();  ///< at the deadlines of asynchronous gets
  std::uint64_t look_timer_ = 0;
  std::uint64_t last_watch_ = 0;
  StringMap<engine::DialPtr>
      unmet_;  ///< abandoned before their sender was met, who is to hear of it; bounded
  std::map<engine::Peer*, std::shared_ptr<std::atomic<std::uint64_t>>> leased_;
  std::map<std::uint64_t, Landing> pulls_;  ///< write route: by pull id
  std::uint64_t next_pull_ = 1;
  std::shared_ptr<engine::LocalRegion>
      landing_region_;  ///< our pool, registered for remote write when first needed
  std::vector<Quarantine> quarantines_;
  ReceiverCounters counters_;
  LatencyHistogram latency_;
  std::unique_ptr<OriginalSenders> originals_;
};

}  // namespace stagewire::connector
