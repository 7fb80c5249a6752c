// MoriTransferEngineConnector in C++: named payloads between the stages of a pipeline.
//
// One connector serves one stage. put() publishes a payload under a key in the sender's pool; get() on the
// receiving stage finds it by the same key and takes it by the cheapest route that both ends have:
//   eager  a few KiB to a receiver that already watches the key: the bytes ride in the message;
//   lease  same host: the receiver looks at the sender's block in place and gives it back;
//   read   the receiver copies the block into its own pool, then gives it back;
//   write  the sender writes into a block that the receiver granted (peers of the original's kind).
//
// Every function may be called from any thread, also while another thread closes the connector. Functions
// that can wait take a deadline and say so. Keys: `{key}@{from_stage}_{to_stage}`, one receiver for each.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stagewire/engine.hpp"
#include "stagewire/payload.hpp"
#include "stagewire/result.hpp"

namespace stagewire {

namespace base {
class Event;
}

enum class Role { sender, receiver, dual };
enum class Route { eager, lease, read, write };
STAGEWIRE_API std::string_view to_string(Role role);
STAGEWIRE_API std::string_view to_string(Route route);

/// The connector's configuration keys, with vLLM-Omni's names and our additions; docs/config.md describes
/// each.
struct ConnectorConfig {
  int stage_id = -1;
  Role role = Role::sender;
  std::string host = "127.0.0.1";     ///< address to bind; "auto" = chosen, see docs/config.md
  int zmq_port = 50051;               ///< 0 = any free one
  std::string backend_type = "auto";  ///< auto, shm, rdma, xgmi, cuda_ipc, ucx
  /// Settings that a backend reads, by the names of docs/config.md ("device_name", "qp_per_transfer"); each
  /// takes its own.
  std::map<std::string, std::string, std::less<>> backend_settings;
  std::uint64_t memory_pool_size = 1ULL << 30;
  std::string memory_pool_device = "cpu";
  std::string sender_host;         ///< upstream; empty = not known (metadata or update_sender_info)
  int sender_zmq_port = 0;         ///< 0 = not known
  double buffer_ttl_s = 300;       ///< unread payloads expire after it; 0 = never
  double original_timeout_s = 30;  ///< that a sender of the original's kind has for a pull; 5 s more for
                                   ///< each full 100 MiB
  double lease_share = 0.5;        ///< of the pool that receivers may hold by lease at once
  std::string route = "auto";      ///< auto, eager, lease, read, write: what a receiver wishes
  WaitStrategy wait = WaitStrategy::adaptive;
  std::string secret_key;  ///< shared by all stages; see IOEngineConfig
  std::string fault_spec;  ///< puts the `fault` backend in front, for tests
};

/// What a put tells the receiver out of band, the original's four fields.
struct TransferMetadata {
  std::string source_host;
  int source_port = 0;
  std::optional<std::uint64_t> data_size;  ///< nullopt: partial metadata, the sender is asked
  bool is_fast_path = false;
};

struct PutResult {
  std::uint64_t size = 0;
  TransferMetadata metadata;
};

enum class DeliveryKind { bytes, tensor, object };

/// What get() returns: the payload, in place. Holds its lease (or block, or ring slot) until it is destroyed
/// or release() is called; the views are valid exactly that long. Move-only. May outlive the connector.
class STAGEWIRE_API Delivery {
 public:
  class Holder;  ///< implementation: gives the bytes back when destroyed
  Delivery();
  Delivery(Delivery&&) noexcept;
  Delivery& operator=(Delivery&&) noexcept;
  ~Delivery();
  Delivery(std::unique_ptr<Holder> holder);  ///< library use

  DeliveryKind kind() const;
  Route route() const;
  std::uint64_t size() const;                ///< bytes as put() counted them
  std::span<const std::byte> bytes() const;  ///< raw bytes, a tensor's bytes, or the encoded object
  /// kind tensor: dtype and shape as they were put. `invalid_argument` for other kinds.
  Result<TensorView> tensor() const;
  /// kind object: the decoded value, views into bytes(). `corrupt` when they do not decode.
  Result<Value> object() const;
  void release();

 private:
  std::unique_ptr<Holder> holder_;
};

/// A block taken from the connector's pool: fill it, then put it without a copy. Returned to the pool when
/// destroyed unless it was put. Move-only. May outlive the connector.
class STAGEWIRE_API PoolBuffer {
 public:
  class Holder;
  PoolBuffer();
  PoolBuffer(PoolBuffer&&) noexcept;
  PoolBuffer& operator=(PoolBuffer&&) noexcept;
  ~PoolBuffer();
  PoolBuffer(std::unique_ptr<Holder> holder);  ///< library use
  std::span<std::byte> bytes() const;
  Holder* holder() const { return holder_.get(); }

 private:
  std::unique_ptr<Holder> holder_;
};

struct PutOptions {
  Milliseconds timeout{0};      ///< how long to wait for space in the pool; 0 = not at all
  bool encoded_object = false;  ///< of a PoolBuffer: it holds what encode() wrote, and arrives as an object
  /// While no receiver waits for the key, takes only space that leaves half of the pool to payloads that
  /// are waited for: what is put long before it is wanted then cannot stop what is wanted now.
  bool spare = false;
};

struct GetOptions {
  Milliseconds timeout{0};                   ///< how long to wait for the payload; 0 = only look
  std::optional<TransferMetadata> metadata;  ///< where it is; nullopt = the configured sender
};

struct RouteCounters {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
};

/// Counters since creation; docs/config.md says what each means.
struct Health {
  bool healthy = false;
  std::string error;  ///< when not healthy
  std::string host;
  int zmq_port = 0;
  std::string pool_device;
  std::uint64_t pool_size = 0;
  std::uint64_t pool_free = 0;
  std::uint64_t pool_quarantined = 0;  ///< bytes kept back because a writer has not been seen to stop
  std::string engine_key;
  std::uint64_t puts = 0;
  std::uint64_t gets = 0;
  std::uint64_t bytes_put = 0;
  std::uint64_t bytes_got = 0;
  std::uint64_t errors = 0;
  std::uint64_t timeouts = 0;
  std::uint64_t expired = 0;
  std::uint64_t published = 0;              ///< payloads that were put and not taken yet
  std::uint64_t watched = 0;                ///< keys that receivers wait for here
  std::uint64_t late = 0;                   ///< completions of what had been given up, ignored
  RouteCounters eager, lease, read, write;  ///< of gets
  std::string route_reason;                 ///< why the last peer is reached the way it is
  /// Time from put() to ready at this receiver, microseconds, of payloads from senders on the same host.
  double latency_p50_us = 0, latency_p90_us = 0, latency_p99_us = 0;
};

struct ConnectionInfo {
  std::string host;
  int zmq_port = 0;
  std::string engine_key;
  bool can_put = true;
};

class Connector {
 public:
  /// Allocates and pre-faults the pool (blocks; a progress line is logged when it takes over a second), binds
  /// the control port, opens the backends.
  STAGEWIRE_API static Result<std::unique_ptr<Connector>> create(const ConnectorConfig& config);
  virtual ~Connector() = default;

  /// Publishes. The payload is copied (encoded) into the pool or to a watching receiver before put() returns.
  /// A key that is published already is replaced, unless it is being read (`conflict`, and the old one
  /// stays). `invalid_argument`: empty key or payload. `too_large`: bigger than the pool. `exhausted`: no
  /// space within the timeout. Blocks at most options.timeout.
  virtual Result<PutResult> put(std::string_view from_stage, std::string_view to_stage, std::string_view key,
                                std::span<const std::byte> bytes, const PutOptions& options = {}) = 0;
  virtual Result<PutResult> put(std::string_view from_stage, std::string_view to_stage, std::string_view key,
                                const TensorView& tensor, const PutOptions& options = {}) = 0;
  virtual Result<PutResult> put(std::string_view from_stage, std::string_view to_stage, std::string_view key,
                                const Value& object, const PutOptions& options = {}) = 0;
  /// The buffer's bytes become the published block, no copy is made.
  virtual Result<PutResult> put(std::string_view from_stage, std::string_view to_stage, std::string_view key,
                                PoolBuffer buffer, const PutOptions& options = {}) = 0;
  virtual Result<PoolBuffer> allocate(std::size_t size, const PutOptions& options = {}) = 0;
  /// Space for the payload of this key. Returns at once; `callback` gets the buffer, in turn with all others
  /// who wait for space, or the reason why there is none by then. Once, on a thread of the library (it must
  /// not block). With options.spare the key waits in a second line until its receiver asks for it.
  virtual Status allocate_async(std::string_view from_stage, std::string_view to_stage, std::string_view key,
                                std::size_t size, const PutOptions& options,
                                std::function<void(Result<PoolBuffer>)> callback) = 0;

  /// Waits up to options.timeout. `not_found`/`timeout`: not there (yet). `unavailable`: the sender died or
  /// cannot be reached. `cancelled`: abandoned or aborted meanwhile.
  virtual Result<Delivery> get(std::string_view from_stage, std::string_view to_stage, std::string_view key,
                               const GetOptions& options = {}) = 0;
  /// Returns at once; `callback` gets the result, once, on a thread of the library or one that is in
  /// ChunkTransferAdapter::wait() (it must not block).
  virtual Status get_async(std::string_view from_stage, std::string_view to_stage, std::string_view key,
                           const GetOptions& options, std::function<void(Result<Delivery>)> callback) = 0;
  /// Calls back, once, when the key can be got without waiting, or with the reason why it never can. An empty
  /// callback only tells the sender beforehand: the payload then comes as soon as it is put, and a later
  /// get() need not ask; the reason why none will come is kept for that get(), too.
  virtual Status watch(std::string_view from_stage, std::string_view to_stage, std::string_view key,
                       std::function<void(Status)> callback) = 0;
  /// This side no longer wants the key: waiting gets end with `cancelled`, the sender is told.
  virtual void abandon_get(std::string_view from_stage, std::string_view to_stage, std::string_view key) = 0;
  /// Calls back, on a thread of the library (it must neither block nor call the connector), with each
  /// internal key of ours that a receiver gave up by abandon_get(), or waited for or read when it was lost.
  /// `taken`: it had the payload already. One listener at a time; an empty one ends it, and has the last call
  /// over when it returns.
  using AbandonListener = std::function<void(std::string_view key, bool taken, const Error& reason)>;
  virtual void on_abandoned(AbandonListener listener) = 0;
  /// Calls back, once and on a thread of the library (it must not block), when everything has been heard that
  /// receivers which are connected now had said before this call (and the AbandonListener has heard it, too);
  /// `timeout` says how many have not answered. A lost receiver has nothing more to say.
  virtual void catch_up(Milliseconds timeout, std::function<void(Status)> callback) = 0;
  /// The sending side gives the key up: an unread payload is dropped, a receiver that waits gets `cancelled`
  /// with `reason`; if none waits, the next that asks does, unless the key was put or cleaned up meanwhile. A
  /// payload that is being read is freed when the reader is done.
  virtual void abort(std::string_view from_stage, std::string_view to_stage, std::string_view key,
                     std::string_view reason) = 0;
  /// abort(), but only of a payload that is still here, read or not: false, and nothing happens, when it was
  /// taken or never put. With an empty reason nobody is told.
  virtual bool withdraw(std::string_view from_stage, std::string_view to_stage, std::string_view key,
                        std::string_view reason) = 0;

  /// Drops the payload put under this key, if it is still there, and forgets that it was aborted; without
  /// stages, `request_id` is the whole internal key. One stage alone is `invalid_argument`. A payload that is
  /// being read is hidden now and freed afterwards.
  virtual Status cleanup(std::string_view request_id, std::optional<std::string_view> from_stage = {},
                         std::optional<std::string_view> to_stage = {}) = 0;
  /// Blocks until everything that was put has been taken, dropped or has expired: what a stage calls before
  /// it closes. `timeout` says how many payloads are left.
  virtual Status drain(Milliseconds timeout) = 0;
  /// Library use: blocks until the event is set (true) or the time is over (false). What get_async() calls
  /// back meanwhile, it may call on this thread, so that what comes wakes this thread and no other.
  virtual bool wait(base::Event& event, Milliseconds timeout) = 0;
  virtual Health health() = 0;
  virtual ConnectionInfo connection_info() const = 0;
  virtual void update_sender_info(std::string_view host, int port) = 0;
  /// Ends everything that waits with `closed`, tells the peers. Idempotent. Deliveries and buffers that are
  /// still held stay valid.
  virtual void close() = 0;

  const ConnectorConfig& config() const { return config_; }

 protected:
  ConnectorConfig config_;
};

/// `{key}@{from}_{to}`; `invalid_argument` for an empty key.
STAGEWIRE_API Result<std::string> make_key(std::string_view key, std::string_view from_stage,
                                           std::string_view to_stage);

}  // namespace stagewire
