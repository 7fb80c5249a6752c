// The data plane: engines that read and write each other's registered memory.
//
//   auto engine = IOEngine::create({.key = "talker", .host = "127.0.0.1"});
//   auto memory = (*engine)->allocate(512 << 20, Access::remote_read);
//   ... hand engine->desc().pack() and memory->desc().pack() to the peer, by whatever means ...
//   (*engine)->register_remote_engine(peer_desc);
//   auto transfer = (*engine)->read(memory->desc(), 0, peer_memory, 4096, 1 << 20);
//   Status done = transfer->wait_for(std::chrono::seconds(5));
//
// Every function may be called from any thread. None blocks unless it says so; what takes time is a transfer.
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

#include "stagewire/descriptor.hpp"
#include "stagewire/memory.hpp"
#include "stagewire/result.hpp"

namespace stagewire {

using Milliseconds = std::chrono::milliseconds;

/// How a thread waits for events. `adaptive` spins for a short while, but only after recent traffic, then
/// blocks.
enum class WaitStrategy { block, spin, adaptive };

struct IOEngineConfig {
  std::string key;                 ///< unique; empty = made up from process id and a random number
  std::string host = "127.0.0.1";  ///< where the control plane listens: an address, a name or "auto"
  int port = 0;                    ///< 0 = any free one; the real one is in desc()
  bool listen = true;              ///< false: this engine only calls, nobody can meet it first
  /// Allowed, in order of preference. "auto" in it, or an empty list, stands for all that work here and want
  /// no permission of their own; `mori` (docs/mori.md) is only had by its name.
  std::vector<std::string> backends;
  WaitStrategy wait = WaitStrategy::adaptive;
  bool progress_thread = true;  ///< false: the owner drives the engine by calling progress()
  std::string fault_spec;       ///< for the `fault` backend
  /// Settings that a backend reads, by the names of docs/config.md ("device_name", "qp_per_transfer").
  std::map<std::string, std::string, std::less<>> backend_settings;
  /// A key that all engines of a deployment share: 64 hexadecimal digits (`openssl rand -hex 32`), or 40
  /// characters of Z85. The control plane is then encrypted, and nobody without the key is heard; the
  /// original's peers have none. Empty = open to whoever reaches the port.
  std::string secret_key;
};

enum class TransferState : std::uint32_t { pending, done, failed };

/// One transfer, shared between the engine and its owner: it may be dropped at any time, the transfer goes
/// on.
class TransferStatus {
 public:
  virtual ~TransferStatus() = default;
  virtual TransferState state() const = 0;
  /// Why it failed; nullopt while pending and when done.
  virtual std::optional<Error> error() const = 0;
  virtual std::string message() const = 0;  ///< the error's words, empty otherwise
  /// Blocks until it has ended or `timeout` has passed (then ErrorCode::timeout; the transfer goes on).
  virtual Status wait_for(Milliseconds timeout) = 0;
  /// Called once, when it ends, on the thread that notices (or at once, here, when it has ended). Must not
  /// block.
  virtual void on_end(std::function<void(const Status&)> callback) = 0;
  /// Asks for the end and returns at once. A transfer that has not ended fails with `cancelled`, but what
  /// moves its bytes may not have stopped yet: see wait_quiet().
  virtual void cancel() = 0;
  /// Blocks until no byte of it will be moved any more, so that its memory can be used for something else, or
  /// until `timeout` has passed (`timeout`: it may still move). One that is done is quiet; one that failed,
  /// by its deadline or cancel() too, becomes quiet when its backend has let go of it.
  virtual Status wait_quiet(Milliseconds timeout) = 0;
  /// The id that the peer's pop_inbound() sees.
  virtual std::uint32_t id() const = 0;
};

using Transfer = std::shared_ptr<TransferStatus>;

struct TransferPiece {
  std::uint64_t local_offset = 0;
  std::uint64_t remote_offset = 0;
  std::uint64_t size = 0;
};

struct TransferOptions {
  Milliseconds timeout{30'000};  ///< the transfer fails with `timeout` after it
  std::uint32_t id = 0;          ///< 0 = allocate_transfer_id()
  bool notify = false;           ///< tell the peer, after the data: pop_inbound() there
};

/// A pair of regions that is used again and again: the look-ups are done once. Fails like the engine's calls
/// when a region is deregistered or the peer is gone; alive() says so beforehand.
class Session {
 public:
  virtual ~Session() = default;
  virtual Transfer read(std::span<const TransferPiece> pieces, const TransferOptions& options = {}) = 0;
  virtual Transfer write(std::span<const TransferPiece> pieces, const TransferOptions& options = {}) = 0;
  virtual bool alive() const = 0;
  /// "shm: same host (boot id), same user", "local: same process"
  virtual std::string route() const = 0;
};

/// Host memory that backends can share with peers (a sealed memfd, huge pages where there are any,
/// pre-faulted), registered with the engine that made it. Freed and deregistered on destruction.
class EngineMemory {
 public:
  virtual ~EngineMemory() = default;
  virtual std::span<std::byte> bytes() const = 0;
  virtual const MemoryDesc& desc() const = 0;
};

struct BackendReport {
  std::string name;
  bool usable = false;
  std::string reason;  ///< why not, or what it found
};

/// Every backend of this build, tried on this machine (for doctor).
STAGEWIRE_API std::vector<BackendReport> probe_backends();

class IOEngine {
 public:
  /// Binds, opens the backends, starts the progress thread. `conflict` when the port is taken (with its owner
  /// where that can be found), `unsupported` when a backend that was asked for cannot be had, `exhausted`
  /// when a thread cannot.
  STAGEWIRE_API static Result<std::unique_ptr<IOEngine>> create(const IOEngineConfig& config);
  virtual ~IOEngine() = default;

  virtual EngineDesc desc() const = 0;

  /// `region` stays the caller's and must outlive its registration. Memory without a file behind it can be
  /// reached from this process only: use allocate() for memory that other processes reach.
  virtual Result<MemoryDesc> register_memory(const MemoryRegion& region, Access access) = 0;
  /// Waits for this engine's own transfers on it to end (at most `timeout`, then `timeout` and it stays
  /// registered).
  virtual Status deregister_memory(const MemoryDesc& desc, Milliseconds timeout = Milliseconds(30'000)) = 0;
  virtual Result<std::unique_ptr<EngineMemory>> allocate(std::size_t size, Access access) = 0;

  /// Makes a peer's regions reachable. A peer with the same key and another instance id replaces the old one,
  /// whose transfers fail with `unavailable`.
  virtual Status register_remote_engine(const EngineDesc& desc) = 0;
  virtual Status deregister_remote_engine(const EngineDesc& desc) = 0;

  virtual std::uint32_t allocate_transfer_id() = 0;
  /// read: remote -> local, write: local -> remote. Never fails to return a transfer: errors are in its
  /// state.
  virtual Transfer read(const MemoryDesc& local, std::uint64_t local_offset, const MemoryDesc& remote,
                        std::uint64_t remote_offset, std::uint64_t size,
                        const TransferOptions& options = {}) = 0;
  virtual Transfer write(const MemoryDesc& local, std::uint64_t local_offset, const MemoryDesc& remote,
                         std::uint64_t remote_offset, std::uint64_t size,
                         const TransferOptions& options = {}) = 0;
  /// One transfer of many pieces: done when all are, failed when one is.
  virtual Transfer batch_read(const MemoryDesc& local, const MemoryDesc& remote,
                              std::span<const TransferPiece> pieces, const TransferOptions& options = {}) = 0;
  virtual Transfer batch_write(const MemoryDesc& local, const MemoryDesc& remote,
                               std::span<const TransferPiece> pieces,
                               const TransferOptions& options = {}) = 0;
  virtual Result<std::shared_ptr<Session>> create_session(const MemoryDesc& local,
                                                          const MemoryDesc& remote) = 0;

  /// Takes the notification of a peer's transfer: true once for each transfer that has arrived whole.
  virtual bool pop_inbound(std::string_view peer_key, std::uint32_t id) = 0;
  /// Blocks until it arrives; `unavailable` when the peer is lost first, `timeout` after `timeout`.
  virtual Status wait_inbound(std::string_view peer_key, std::uint32_t id, Milliseconds timeout) = 0;

  /// Hand-driven mode: does what is due, waits up to `wait` for something to be due; returns the number of
  /// events.
  virtual std::size_t progress(Milliseconds wait = Milliseconds(0)) = 0;
  /// Ends all transfers with `closed`; later calls fail with it. Idempotent; the destructor calls it.
  virtual void close() = 0;
};

}  // namespace stagewire
