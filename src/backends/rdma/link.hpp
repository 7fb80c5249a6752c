// One connection between two backends: queue pairs, the frames and transfers that go over them, and what
// makes them outlive a broken network.
//
// The first queue pair carries frames, the others (Settings::queue_pairs) carry data, so that no message
// waits behind megabytes. Frames are numbered on both sides and kept until the peer's device has acknowledged
// them; the receiver tells how many of its buffers are free again, so none is ever sent that has nowhere to
// go.
//
// When a queue pair fails, all of them are replaced: both ends stop theirs, look at everything that came
// before, and greet again, telling how many frames they have received. What the other end has not received is
// sent again, transfers begin anew: nothing is lost, and nothing comes twice. A transfer that was refused by
// the peer's device ends with that error instead. After Settings::recovery the link is lost.
//
// link.cc is its life, link_greetings.cc how queue pairs are made, link_frames.cc the frames,
// link_transfers.cc what it does with its transfers.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "backend/completion_queue.hpp"
#include "backend/worker.hpp"
#include "backends/rdma/greeter.hpp"
#include "backends/rdma/link_memory.hpp"
#include "backends/rdma/queue_pair.hpp"
#include "backends/rdma/registration.hpp"
#include "backends/rdma/router.hpp"
#include "backends/rdma/transfers.hpp"
#include "backends/rdma/ways.hpp"
#include "base/clock.hpp"

namespace stagewire::backends::rdma {

class Link;

/// What all links of a backend share. Outlives every link that has not ended.
struct LinkHost {
  const Settings& settings;
  const std::vector<std::shared_ptr<Port>>& ports;
  const std::vector<std::unique_ptr<Greeter>>& greeters;  ///< one for each port
  const std::vector<std::byte>& address;                  ///< our own, packed
  Shape large;                                            ///< from the caller to the one that is called
  Router<Link>& router;
  RegionTable& regions;
  backend::CompletionQueue& completions;
  std::atomic<int>& awaiting_sent;  ///< links that have to be woken by what was sent
  std::atomic<bool>& attention;     ///< some link has something for serve()
  std::atomic<int>& greetings;      ///< that the worker has not posted yet
  backend::Worker& worker;
  backend::WakeEvent& wake;
};

/// Thread-safe. "Progress" below is the thread that makes progress, one at a time.
class Link : public std::enable_shared_from_this<Link> {
 public:
  /// The caller's end.
  Link(LinkHost& host, Address peer);
  /// The other one.
  Link(LinkHost& host, Address peer, const Call& call);
  ~Link();

  std::uint64_t id() const { return id_; }
  const Address& peer() const { return peer_; }
  std::uint64_t peer_link() const { return peer_link_; }  ///< of one that was called

  // --- Life (link.cc, link_greetings.cc) ---
  void start();
  std::optional<Status> status() const;
  /// The endpoint goes. What is sent arrives; transfers are aborted, and no byte of them moves afterwards.
  void close();
  /// Ends it now, with this reason.
  void fail(const Error& reason);
  bool ended() const;

  // Progress:
  void on_call(const Call& call);
  void on_answer(const Answer& answer);
  void on_refusal(const Refusal& refusal);
  void on_probe(const Probe& probe);
  void on_reached();
  /// One of our ports went down, or came up again.
  void on_port(std::size_t port, bool up);
  void tick(base::TimePoint now);
  /// How long tick() may wait.
  base::Duration tick_interval() const;
  /// Delivers what has happened to the link itself. True: it has ended and everybody knows.
  bool serve(EventSink& sink, std::size_t& events);
  void on_sent(const ibv_wc& completion, std::size_t pair, std::size_t& events);
  void on_received(const ibv_wc& completion, EventSink& sink, std::size_t& events);

  // --- Frames (link_frames.cc) ---
  Result<std::shared_ptr<Import>> import(std::span<const std::byte> remote_key);
  PayloadSlot reserve(std::size_t size);
  void abandon(const PayloadSlot& slot);
  Result<Posted> send(std::span<const std::byte> message, const PayloadSlot& slot, bool urgent);

  // --- Transfers (link_transfers.cc) ---
  Result<Posted> post(const WorkRequest& request, const Import& remote);

 private:
  enum class Phase {
    draining,    ///< the queue pairs are stopped; what they received is looked at
    preparing,   ///< the worker makes others
    calling,     ///< caller: greets until it is answered
    connecting,  ///< caller: the worker connects them
    waiting,     ///< called: until the first frame comes over them
    retrying,    ///< it went wrong; again at retry_at_
    up,
    leaving,  ///< up, but for the last frame only
    ended
  };
  static constexpr std::size_t kNoSlot = ~std::size_t{0};
  static constexpr std::uint32_t kReserve =
      4;  ///< buffers of the peer that only `credits` and `bye` may take
  static constexpr std::size_t kMaxPending = 1024;

  /// A frame that was sent, until the peer's device has it.
  struct Outgoing {
    std::uint32_t buffer = 0;
    std::size_t slot = kNoSlot;
    std::uint32_t payload_size = 0;
    Transfers::Serial transfer = 0;  ///< whose notification it is
    bool bye = false;
    bool urgent = true;
  };
  /// A frame of our own that has no room yet.
  struct Pending {
    FrameKind kind = FrameKind::begin;
    std::uint32_t number = 0;
    std::uint32_t error = 0;
    Transfers::Serial transfer = 0;
    std::vector<std::byte> message;
  };
  // link.cc; with mutex_ held:
  void break_off(const Error& reason);
  bool drained(base::TimePoint now) const;
  void came_up();
  void end(const Error& reason);
  void drop_pairs();
  void wants_attention();
  void await_sent();
  bool is_up() const { return phase_ == Phase::up || phase_ == Phase::leaving; }
  std::string peer_name() const;
  Port& port() const { return *host_.ports[way_of_[0].port]; }  ///< of the frames
  const Rail& rail() const { return peer_.rails[way_of_[0].rail]; }
  static Ways ways_to(const LinkHost& host, const Address& peer);

  // link_greetings.cc; with mutex_ held:
  void begin_attempt();
  void prepare_later();
  void retry(const Error& reason);
  void take_ways(const Call& call);
  void call_peer(base::TimePoint now);
  void greet(Greeting greeting) { greet_over(way_of_[0], std::move(greeting)); }
  void greet_over(const Way& way, Greeting greeting);
  void probe_missing(base::TimePoint now);
  LinkEnd own_end() const;
  Status accept_end(const LinkEnd& end);
  Status run_on_worker(std::function<void(Link&)> work);
  // On the worker, without it:
  void prepare(std::uint32_t attempt);
  Result<std::vector<std::shared_ptr<QueuePair>>> make_pairs(const std::vector<Way>& ways) const;
  Status connect_pairs(std::uint32_t attempt);
  bool install(std::uint32_t attempt, std::vector<std::shared_ptr<QueuePair>> pairs);

  // link_frames.cc; with mutex_ held:
  std::uint32_t credits() const;
  bool has_room(std::uint32_t reserve) const;
  bool put_frame(const FrameHeader& header, std::span<const std::byte> message, std::size_t slot, bool urgent,
                 Transfers::Serial transfer, std::uint32_t reserve);
  void post_frame(Outgoing& frame);
  void put_or_keep(Pending pending);
  void flush_pending();
  void acknowledge(std::size_t frames);
  void return_credits();
  Status note_freed(std::uint32_t frames, std::uint32_t payloads);
  Status post_receive(std::uint32_t index);
  void give_back(std::uint32_t index);
  void answer_import(const ReceivedFrame& frame);
  void take_import_answer(const ReceivedFrame& frame);
  // Without it:
  void deliver(const ReceivedFrame& frame, std::uint32_t index, EventSink& sink);
  static void release_payload(void* link, std::uint32_t index);

  // link_transfers.cc; with mutex_ held:
  Transfers::Moved notify_later();
  void pump();
  void note_ended(std::size_t transfers_before);

  LinkHost& host_;
  const std::uint64_t id_ = random_number();
  const Address peer_;
  const bool caller_;
  std::uint64_t peer_link_ = 0;
  std::vector<std::byte> peer_address_;  ///< packed; of one that was called

  mutable std::mutex mutex_;  ///< guards everything below
  Phase phase_ = Phase::preparing;
  bool was_up_ = false;
  std::optional<Error> error_;
  std::string trouble_;  ///< the last reason why it is not up
  base::TimePoint deadline_ = base::TimePoint::max();
  base::TimePoint retry_at_{};
  base::TimePoint drain_until_{};
  base::TimePoint next_call_{};
  base::TimePoint last_heard_{};
  std::uint32_t attempt_ = 0;
  std::uint32_t calls_ = 0;   ///< of this attempt
  Ways ways_;                 ///< the caller chooses among them
  std::vector<Way> way_of_;   ///< each queue pair's, of this attempt; the frames' first, never empty
  std::vector<Way> missing_;  ///< the caller's: those that it would use, too
  base::TimePoint next_probe_{};
  base::Duration probe_pause_;  ///< longer each time that one was found good again
  base::TimePoint up_since_{};
  std::uint32_t sequence_ = 0;
  LinkEnd peer_end_;
  std::optional<Call> next_call_received_;         ///< to be answered when the old queue pairs are drained
  std::vector<std::shared_ptr<QueuePair>> pairs_;  ///< the worker keeps one while it connects it
  std::vector<std::shared_ptr<QueuePair>> dying_;  ///< the worker destroys them
  std::unique_ptr<LinkMemory> memory_;             ///< registered by the worker, then constant for a port
  bool pinging_ = false;
  bool awaits_sent_ = false;

  // Frames to the peer.
  std::vector<std::uint32_t> free_buffers_;
  std::vector<std::size_t> free_slots_;
  std::deque<Outgoing> unacknowledged_;
  std::uint64_t frames_acknowledged_ = 0;  ///< and those in unacknowledged_ come after them
  std::uint32_t payloads_sent_ = 0;
  std::uint32_t payloads_reserved_ = 0;
  std::uint32_t peer_freed_frames_ = 0;
  std::uint32_t peer_freed_payloads_ = 0;
  std::deque<Pending> pending_;
  bool starved_ = false;  ///< somebody was told that there is no room
  // Frames from the peer.
  std::vector<bool> held_;  ///< receive buffers that are in use
  std::uint32_t posted_receives_ = 0;
  std::uint64_t frames_received_ = 0;
  std::uint32_t freed_frames_ = 0, freed_payloads_ = 0;
  std::uint32_t payloads_received_ = 0;
  std::uint32_t told_frames_ = 0, told_payloads_ = 0;  ///< of these, what the peer knows
  // Imports.
  std::map<std::uint32_t, std::shared_ptr<Import>> imports_;  ///< not answered yet
  std::uint32_t next_import_ = 1;
  Transfers transfers_;
  std::vector<Lane> lanes_;  ///< of the queue pairs that carry data; none while they are not connected

  // Progress only.
  bool arrived_ = false;
  EventSink::PeerToken token_ = 0;
};

}  // namespace stagewire::backends::rdma
