// The machine room shared by IOEngine and Connector: backends, control plane, peers, timers, and the one
// progress thread. docs/threading.md has the picture.
//
// Locks, in the order in which they may be taken:
//   progress_mutex_  held by whoever makes the backends progress (the progress thread, or a caller that
//   waits); the handler's own mutex (the connector's); Peer::mutex, Dial::mutex; the tables' mutex, mutex_:
//   peers, dials, timers, work. Last: nothing is called with it held.
// Handler calls come with progress_mutex_ held, or on the progress thread; they must not wait.
#pragma once

#include <poll.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/clock.hpp"
#include "base/event.hpp"
#include "base/log.hpp"
#include "base/unique_fd.hpp"
#include "engine/earlier_instances.hpp"
#include "engine/peer.hpp"
#include "engine/transfer.hpp"
#include "stagewire/engine.hpp"

namespace stagewire::engine {

/// What the engine room tells the connector above it.
class Handler {
 public:
  virtual ~Handler() = default;
  /// Hellos were exchanged; messages can be sent. Once for each Peer, and once more when it answers at an
  /// address that was dialled (`dial`, else nullptr).
  virtual void on_met(const PeerPtr& peer, const DialPtr& dial) = 0;
  virtual void on_message(const PeerPtr& peer, wire::Message&& message, MessagePayload&& payload) = 0;
  /// Last call for this Peer.
  virtual void on_lost(const PeerPtr& peer, const Error& reason) = 0;
  /// Whoever answers at this address speaks only the original's protocol.
  virtual void on_original(const DialPtr& dial) = 0;
  virtual void on_original_answer(const DialPtr& dial, std::span<const std::byte> bytes) = 0;
  virtual void on_original_request(const control::CallerId& caller, wire::OriginalRequest request) = 0;
  /// A connection that a peer had made to us is closed by it: over this one it moves no byte any more.
  virtual void on_connection_ended(EventSink::PeerToken connection) = 0;
  /// The connection to this address broke (and will be tried again).
  virtual void on_disconnected(const DialPtr& dial) = 0;
  /// What Core::callbacks_are_due() asked for. Without a lock, on any thread, perhaps on two at once.
  virtual void run_callbacks() = 0;
};

struct CoreOptions {
  IOEngineConfig engine;
  Handler* handler = nullptr;                        ///< may be nullptr; outlives close()
  const base::Clock* clock = &base::steady_clock();  ///< for timers
};

/// What became of an attempt to post: try later; a completion will follow; or it has ended, with `status`.
struct PostOutcome {
  enum Kind { later, posted, ended } kind = later;
  Status status;
};

class Core : public std::enable_shared_from_this<Core> {
 public:
  static Result<std::shared_ptr<Core>> create(CoreOptions options);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  const EngineDesc& desc() const { return desc_; }
  const BackendSet& backends() const { return *backends_; }
  /// What the hello says about our pool. Before the first peer is met.
  void set_pool(const MemoryDesc& pool, std::uint64_t lease_limit);
  /// Starts the progress thread (unless hand-driven). Handler calls begin. `exhausted`: no thread is to be
  /// had; what is left to do is close().
  Status start();
  /// Tells the peers, ends every transfer with `closed`, joins the thread. Not from a handler call.
  /// Idempotent.
  void close();
  bool closed() const { return closed_; }

  // --- Peers (meeting.cc) ---
  /// A name is resolved here, on the calling thread (blocks on the resolver); errors are resolve_host()'s.
  Result<DialPtr> dial(const std::string& host, int port);
  void hang_up(const DialPtr& dial);
  /// Another connection to the same address: answers that were on their way are not seen.
  void redial(const DialPtr& dial);
  /// The peer behind an engine's descriptor, made known (and connected to) if it was not. Never lost when
  /// returned.
  PeerPtr add_peer(const EngineDesc& desc);
  PeerPtr find_peer(std::string_view engine_key);
  void drop_peer(const PeerPtr& peer, const Error& reason);
  /// Drops it, and a hello of this instance does not make it known again.
  void dismiss_peer(const PeerPtr& peer, const Error& reason);
  std::vector<PeerPtr> peers();
  /// The connections that peers have to us now, those included that have not said whose they are.
  std::set<EventSink::PeerToken> connections();
  /// The one of `peer`, if it is still there: a peer can be lost before it.
  std::optional<EventSink::PeerToken> connection_of(const Peer& peer);

  // --- Messages (sending.cc) ---
  /// Queues in order behind what could not be sent yet. Nothing is promised for a lost peer.
  void send(Peer& peer, const wire::Message& message, const PayloadSlot& slot = {}, bool urgent = true);
  /// A place for a payload at the peer; empty when there is none just now, or messages are queued.
  PayloadSlot reserve(Peer& peer, std::size_t size);
  void abandon(Peer& peer, const PayloadSlot& slot);
  void send_original(const DialPtr& dial, std::vector<std::byte> bytes);
  void answer_original(const control::CallerId& caller, std::vector<std::byte> bytes);
  /// Starts importing, or finds the import. Usable when its status() is ok.
  Result<std::shared_ptr<RemoteRegion>> import_region(Peer& peer, const MemoryDesc& memory);

  // --- Waiting (waiting.cc) ---
  /// Blocks until the event is set (true) or the deadline has passed (false), by the configured strategy. The
  /// caller makes the backends progress while it waits, so that what it waits for costs one wake.
  bool wait(base::Event& event, base::Deadline deadline);
  /// The same, and callbacks that are due meanwhile run on this thread: what they are about costs no second
  /// wake.
  bool wait_and_call_back(base::Event& event, base::Deadline deadline);
  /// The part of wait() that only spins, so that nobody has to be told to wake this thread: for a short
  /// while, or not at all, as the strategy has it.
  bool wait_spinning(base::Event& event);
  /// Looks whether anything has arrived, without waiting.
  void poll();
  /// The same, but only at messages: no connection is looked at, no system call is made.
  void poll_messages();
  /// Blocks until every message has left this process; `timeout` says how many peers' have not.
  Status wait_sent(base::Deadline deadline);
  /// Hand-driven mode: what the progress thread does in one turn.
  std::size_t progress(base::Duration wait);
  /// Someone waits for what messages that are not urgent would release.
  void want_everything(bool on);

  // --- Timers and work for the progress thread (loop.cc) ---
  using TimerId = std::uint64_t;
  TimerId add_timer(base::Deadline when, std::function<void()> callback);
  /// Whether it had not fired.
  bool cancel_timer(TimerId timer);
  /// Runs on the progress thread, without any lock: for the control plane, and for callbacks of users.
  void run_on_loop(std::function<void()> work);
  /// Has Handler::run_callbacks() called: by this thread when it is in wait_and_call_back(), else by the
  /// progress thread.
  void callbacks_are_due();

  // --- Regions and transfers (transfer.cc) ---
  Result<std::shared_ptr<LocalRegion>> register_region(const MemoryRegion& region, Access access);
  std::shared_ptr<LocalRegion> find_region(std::uint32_t id);
  Status deregister_region(std::uint32_t id, base::Deadline deadline);
  /// Posts it, or queues it behind what could not be posted yet. `on_this_thread`: the caller would rather
  /// copy itself.
  void submit(const std::shared_ptr<TransferImpl>& transfer, bool on_this_thread);
  /// Ends it for its owner with `reason`; it quiesces when the backend has let go of it.
  void give_up(const std::shared_ptr<TransferImpl>& transfer, const Error& reason);
  std::uint32_t allocate_transfer_id();

  // --- Notifications of peers (inbound.cc) ---
  bool pop_inbound(std::string_view peer_key, std::uint32_t id);
  Status wait_inbound(std::string_view peer_key, std::uint32_t id, base::Deadline deadline);

  const base::Clock& clock() const { return *options_.clock; }

 private:
  friend class TransferImpl;
  class Events;         // EventSink
  class ControlEvents;  // ControlSink

  explicit Core(CoreOptions options);
  Status open();
  Status choose_host_for_listeners(BackendOptions& options);
  Status open_backends();
  bool end_transfers(const Error& reason);

  // loop.cc
  void run_loop();
  std::size_t turn(base::Duration wait);
  std::size_t run_work();
  std::size_t run_callbacks();
  std::size_t run_timers();
  base::Duration until_next_timer(base::Duration at_most);
  void wake_loop();

  // waiting.cc
  std::size_t progress_locked(bool messages_only);
  std::size_t progress_until_armed(bool* armed);
  std::size_t progress_and_arm(bool* armed);
  bool left_to_spinners();
  base::Duration adaptive_spin(base::TimePoint now) const;
  bool wait_adaptively(base::Event& event, base::Deadline deadline);
  bool spin(base::Event& event, base::Deadline give_up);
  bool drive(base::Event& event, base::Deadline deadline);
  bool calls_back() const;
  void watch_backends(bool on);

  // meeting.cc
  void handle_call(const control::CallerId& caller, std::span<const std::byte> payload);
  void handle_answer(control::DialId id, std::span<const std::byte> payload);
  void handle_connected(control::DialId id, bool connected);
  Result<PeerPtr> meet(const wire::Hello& hello, control::DialId dial_id, const control::CallerId& caller,
                       const DialPtr& dial);
  bool is_over(const EngineDesc& desc);
  void dispatch(const PeerPtr& peer, std::span<const std::byte> bytes, MessagePayload payload);
  void open_route(Peer& peer);
  DialPtr find_dial(control::DialId id);
  wire::Hello hello(bool wants_reply);
  EventSink::PeerToken arrived(std::string_view engine_key);
  void arrived_message(EventSink::PeerToken token, std::span<const std::byte> bytes, MessagePayload payload);
  void arrived_lost(EventSink::PeerToken token, const Error& reason);
  void connection_ended(EventSink::PeerToken token);
  void took_leave(const PeerPtr& peer);
  void add_peers(std::vector<PeerPtr>& all);
  void check_endpoints();
  void greet_again(const DialPtr& dial);
  void place_call(const DialPtr& dial);

  // sending.cc
  using Finished = std::pair<std::shared_ptr<TransferImpl>, Status>;
  void send_over_control(Peer& peer, std::vector<std::byte> bytes);
  void note_busy(Peer& peer);
  std::size_t flush_busy();
  bool flush(Peer& peer, std::unique_lock<std::mutex>& lock, std::vector<Finished>& finished);

  // transfer.cc
  void complete(Completion&& completion);
  PostOutcome post(Peer& peer, const std::shared_ptr<TransferImpl>& transfer,
                   std::unique_lock<std::mutex>& lock, bool on_this_thread);
  void abandon_posted();
  void finish(const std::shared_ptr<TransferImpl>& transfer, const Status& status);
  void fail_transfers_of(Peer& peer, const Error& reason);

  // inbound.cc
  void notified(EventSink::PeerToken token, std::uint32_t id);
  void forget_inbound(std::string_view peer_key);

  CoreOptions options_;
  EngineDesc desc_;
  std::shared_ptr<BackendSet> backends_;
  std::unique_ptr<control::ControlPlane> control_;  ///< touched by the progress thread only
  std::unique_ptr<Events> events_;
  std::unique_ptr<ControlEvents> control_events_;

  base::UniqueFd backends_epoll_;  ///< the backends' wait descriptors
  base::UniqueFd loop_epoll_;      ///< backends_epoll_ (while not lent), control plane, loop_wake_
  base::UniqueFd loop_wake_;
  base::UniqueFd driver_wake_;  ///< of the caller that has borrowed backends_epoll_
  std::thread thread_;
  std::atomic<std::thread::id> loop_thread_{};
  std::atomic<bool> closed_{false};
  bool hears_strangers_ = false;  ///< a backend takes peers that nobody has registered; constant after open()
  std::atomic<bool> stopping_{false};

  std::mutex progress_mutex_;
  std::vector<PeerPtr> checked_peers_;  ///< while they are; under progress_mutex_
  std::mutex driver_mutex_;             ///< held by the caller that has borrowed backends_epoll_
  std::vector<pollfd> wait_fds_;  ///< the backends' and, last, driver_wake_; revents under driver_mutex_
  std::atomic<int> spinners_{0};
  std::atomic<bool> unwatched_for_spinners_{false};
  std::atomic<std::int64_t> last_traffic_ns_{0};
  std::atomic<std::int64_t> typical_wait_ns_{0};
  std::atomic<int> wanting_everything_{0};
  std::atomic<bool> callbacks_due_{false};
  base::LogLimiter bad_messages_;

  std::mutex mutex_;
  std::unordered_map<std::string, PeerPtr> peers_;  ///< by engine key
  EarlierInstances earlier_;
  std::unordered_map<EventSink::PeerToken, PeerPtr> arrived_;    ///< nullptr = has not said hello
  std::unordered_map<EventSink::PeerToken, std::string> named_;  ///< peers that never will: their keys
  std::set<EventSink::PeerToken> connections_;                   ///< not closed by the peer
  EventSink::PeerToken next_token_ = 1;
  std::unordered_map<control::DialId, DialPtr> dials_;
  std::unordered_map<control::CallerId, PeerPtr> callers_;
  MemoryDesc pool_;
  std::uint64_t lease_limit_ = 0;
  using Timers = std::multimap<base::TimePoint, std::pair<TimerId, std::function<void()>>>;
  Timers timers_;
  std::unordered_map<TimerId, Timers::iterator> timer_places_;
  TimerId next_timer_ = 1;
  std::vector<std::function<void()>> work_;

  std::mutex busy_mutex_;
  std::vector<std::weak_ptr<Peer>> busy_peers_;
  std::atomic<int> busy_count_{0};
  EventList sent_waiters_;

  TransferTable transfers_;
};

}  // namespace stagewire::engine
