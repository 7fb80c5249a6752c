// The contract between the engine and whatever moves bytes. A backend is a folder under src/backends/, one
// factory function named in src/backend/builtin_backends.cc, and a pass of the conformance suite
// (tests/conformance/).
//
// What crosses to a peer is opaque: an address (how to reach this engine over this backend) and a remote key
// (how to reach one region). No type here knows a particular backend.
//
// Threads: every function may be called from any thread unless it says otherwise. None blocks, none throws.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stagewire/memory.hpp"
#include "stagewire/result.hpp"

namespace stagewire {

/// What a backend can do; the engine chooses routes by this and by nothing else.
struct Capabilities {
  bool cpu_memory = false;
  bool gpu_memory = false;
  bool same_process_only = false;
  bool same_host_only = false;
  bool maps_remote = false;            ///< RemoteRegion::mapping() works: the lease route
  std::uint64_t max_request_size = 0;  ///< largest single segment, bytes
  std::size_t max_message_size = 0;    ///< largest message for Endpoint::send(), 0 = carries no messages
  std::size_t max_payload_size = 0;    ///< largest payload that can ride with a message (the eager route)
  double cost_us = 0;                  ///< estimated cost of starting a transfer, microseconds
  double gb_per_s = 0;                 ///< estimated bandwidth, 1e9 bytes per second
};

/// One registered region. Destroying it ends remote access to the region as far as the backend can end it:
/// later imports fail with `not_found`; docs/backends.md says for each backend what a peer that has imported
/// it already can still do. May outlive the backend.
class Registration {
 public:
  virtual ~Registration() = default;
  /// Names the allocation's base, the region's offset in it, its size and the access granted. Stays valid,
  /// and the same, as long as this object lives.
  virtual std::span<const std::byte> remote_key() const = 0;
};

/// A peer's region, imported from its remote key. Usable when status() is ok. May outlive its endpoint, and
/// so may its mapping.
class RemoteRegion {
 public:
  virtual ~RemoteRegion() = default;
  virtual std::uint64_t size() const = 0;
  /// nullopt: still being set up (the peer has to answer); ok: usable; error: never will be, with the reason.
  /// It changes during progress() or just before wait_fd() wakes; progress() counts the change as an event.
  virtual std::optional<Status> status() const = 0;
  /// The peer's bytes in this process's address space, read-only; nullptr when this backend or this memory
  /// cannot.
  virtual const std::byte* mapping() const = 0;
};

/// `full` is no error: make progress, then try again.
enum class Posted { completed, pending, full };

struct Segment {
  std::uint64_t local_offset = 0;
  std::uint64_t remote_offset = 0;
  std::uint64_t size = 0;
};

enum class Operation { read, write };

/// One posted piece of a transfer. All segments, then the notification, complete as one (R23). Requests that
/// are pending at the same time have no order among each other.
struct WorkRequest {
  std::uint64_t id = 0;  ///< comes back in the completion, chosen by the caller, unique while pending
  Operation operation = Operation::read;  ///< read: remote -> local
  const Registration* local = nullptr;    ///< must outlive the completion
  const RemoteRegion* remote =
      nullptr;  ///< must outlive the completion; of this endpoint, else `invalid_argument`
  std::span<const Segment> segments;  ///< read before post() returns; bounds were checked by the caller
  std::optional<std::uint32_t> notification;  ///< delivered to the peer after the data is visible there
  bool on_this_thread = false;  ///< the caller would rather copy on its own thread than wait for another
};

struct Completion {
  std::uint64_t id = 0;
  Status status;
};

/// Bytes that came with a message. They stay in place until this object is destroyed; keep it as long as the
/// bytes are looked at. Holding many of them for long stops the peer from sending more this way. Move-only.
class MessagePayload {
 public:
  /// Called exactly once with the same cookie and index.
  using Release = void (*)(void* cookie, std::uint32_t index);
  MessagePayload() = default;
  MessagePayload(std::span<const std::byte> bytes, std::shared_ptr<void> owner, Release release,
                 std::uint32_t index)
      : bytes_(bytes), owner_(std::move(owner)), release_(release), index_(index) {}
  MessagePayload(MessagePayload&& other) noexcept { swap(other); }
  MessagePayload& operator=(MessagePayload&& other) noexcept {
    MessagePayload(std::move(other)).swap(*this);
    return *this;
  }
  MessagePayload(const MessagePayload&) = delete;
  MessagePayload& operator=(const MessagePayload&) = delete;
  ~MessagePayload() {
    if (release_ != nullptr) release_(owner_.get(), index_);
  }
  std::span<const std::byte> bytes() const { return bytes_; }
  bool empty() const { return bytes_.empty(); }

 private:
  void swap(MessagePayload& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(owner_, other.owner_);
    std::swap(release_, other.release_);
    std::swap(index_, other.index_);
  }
  std::span<const std::byte> bytes_;
  std::shared_ptr<void> owner_;
  Release release_ = nullptr;
  std::uint32_t index_ = 0;
};

/// A place at the peer, already chosen, into which the sender writes a payload before it sends the message.
/// Either send() takes it (it answered `completed`), or it is given back by abandon(), or it ends with the
/// endpoint.
struct PayloadSlot {
  std::span<std::byte> bytes;  ///< exactly the size that was asked for; empty = no slot
  std::uint32_t index = 0;
};

/// Our end of a connection to one peer over one backend. It may still be connecting: then post(), reserve()
/// and send() answer `full` (or no slot) until it is up. Whoever met `full` or no slot is woken when trying
/// again makes sense: progress() reports an event, and wait_fd() becomes readable if it was armed. Destroying
/// the endpoint aborts what is pending (completions with `closed` follow) and returns when no byte of it
/// moves any more; it must not race with a call of its other functions.
class Endpoint {
 public:
  virtual ~Endpoint() = default;
  /// nullopt: connecting; ok: up; error: lost or refused for good, with the reason. Connect again for another
  /// try.
  virtual std::optional<Status> status() const = 0;
  /// Starts importing a region. `corrupt` for a key that does not parse, `permission` where the key grants
  /// nothing, `not_found` for a key of another peer or instance.
  virtual Result<std::unique_ptr<RemoteRegion>> import(std::span<const std::byte> remote_key) = 0;
  /// `completed`: done, no completion will follow. `pending`: exactly one completion follows from progress(),
  /// also when the peer dies (`unavailable`) or the endpoint is destroyed with the backend alive (`closed`).
  /// An error: nothing was begun, or nothing of it goes on; no completion follows. `full`: nothing was begun.
  virtual Result<Posted> post(const WorkRequest& request) = 0;
  /// A place for `size` bytes of payload at the peer; an empty slot when there is none just now.
  virtual PayloadSlot reserve(std::size_t size) = 0;
  virtual void abandon(const PayloadSlot& slot) = 0;
  /// Sends a message, with the payload written to `slot` (or an empty one). Messages of one endpoint arrive
  /// in order, each once, or on_peer_lost() is called. `urgent` wakes a sleeping peer; a message that is not
  /// urgent waits until the peer looks for another reason, at the latest when enough of them have gathered.
  virtual Result<Posted> send(std::span<const std::byte> message, const PayloadSlot& slot, bool urgent) = 0;
};

/// Where progress() delivers. Called on the thread that calls progress(), with no lock of the backend held:
/// it may post, send, import, connect and destroy endpoints, but not call progress().
class EventSink {
 public:
  /// Names a peer that connected to us, in the calls below.
  using PeerToken = std::uint64_t;
  virtual ~EventSink() = default;
  /// A peer connected; `peer_address` are the bytes of its own Backend::address(). Each connection that a
  /// peer makes arrives anew: two endpoints of one peer are two tokens. `engine_key`: who it is, from a
  /// backend whose peers say so when they connect; empty from one that carries their hello as a message. The
  /// former promises that no byte of a peer lands in a region whose Registration has been destroyed, whether
  /// the peer is lost or not.
  virtual PeerToken on_peer_arrived(std::span<const std::byte> peer_address, std::string_view engine_key) = 0;
  virtual void on_completion(Completion&& completion) = 0;
  virtual void on_notification(PeerToken peer, std::uint32_t notification) = 0;
  virtual void on_message(PeerToken peer, std::span<const std::byte> message, MessagePayload payload) = 0;
  /// The peer that arrived as `peer` is gone (closed, died, or broke the protocol). Last call with this
  /// token: what it had sent whole before it went has been delivered.
  virtual void on_peer_lost(PeerToken peer, const Error& reason) = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  /// For people: what it stands on here, such as its devices and their addresses. One line, or several.
  virtual std::string describe() const = 0;
  virtual const Capabilities& capabilities() const = 0;
  /// How peers reach this engine; goes into the engine's descriptor.
  virtual std::span<const std::byte> address() const = 0;
  /// Whether a peer with this address can be reached; the reason when not. Symmetric: both sides answer the
  /// same.
  virtual Status reaches(std::span<const std::byte> peer_address) const = 0;
  /// `unsupported` when the memory cannot be what `access` wants, with advice. For `local_only` (the local
  /// side of reads and writes) a backend of host memory takes any host memory.
  virtual Result<std::unique_ptr<Registration>> register_region(const MemoryRegion& region,
                                                                Access access) = 0;
  /// Starts connecting. The endpoint must be destroyed before the backend.
  virtual Result<std::unique_ptr<Endpoint>> connect(std::span<const std::byte> peer_address) = 0;
  /// Does whatever work is due and delivers what has happened; returns how many events. Never blocks. One
  /// thread at a time (the caller holds a lock). `messages_only` asks for the cheapest look: only what a
  /// spinning caller waits for (messages, notifications, completions), no connection handling. Takes back an
  /// earlier arm(): who makes progress looks again, or arms again before it stops looking.
  virtual std::size_t progress(EventSink& sink, bool messages_only) = 0;
  /// Readable when progress() is worth calling, but only after arm(); -1 when there is nothing to wait on.
  /// Constant; any thread may poll it. After it woke somebody, progress(sink, false) must be called before
  /// waiting again.
  virtual int wait_fd() const = 0;
  /// Asks that wait_fd() become readable at the next event. Under the same lock as progress(). Returns false
  /// when there is something to do already: call progress() instead of waiting.
  virtual bool arm() = 0;
  /// Asks peers to wake us for messages that are not urgent as well (a caller waits for what they release).
  /// Holds from the next arm() on, until it is switched off: who sleeps already must be armed anew.
  virtual void want_everything(bool on) = 0;
};

/// Options that reach every backend's factory; each takes what is its own.
struct BackendOptions {
  std::string engine_key;  ///< who we are, for peers, messages and logs
  std::string host;        ///< numeric address for those that listen on a port of their own
  std::size_t message_ring_size = 64 * 1024;  ///< bytes for each peer's messages to us
  std::size_t payload_slot_size = 8 * 1024;   ///< bytes of one eager payload at most
  std::size_t payload_slots = 128;            ///< how many each peer may have under way
  std::string fault_spec;  ///< for `fault`: "drop=0.01,delay_ms=2,seed=7", see docs/config.md
  /// What else the user says about backends, by the names of docs/config.md ("device_name", "gid_index"):
  /// each backend takes its own and leaves the others'.
  std::map<std::string, std::string, std::less<>> settings;
};

}  // namespace stagewire
