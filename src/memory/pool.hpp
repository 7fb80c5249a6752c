// The managed memory of one connector: blocks with exactly one state each, and a queue for those who wait for
// space.
//
//   free -> staged -> published (pinned by n readers) -> free         what a sender puts
//   free -> staged -> granted -> staged                               what a receiver lets a peer write into
//                     granted -> quarantined -> free                  the writer has not been seen to stop
//                     (R01)
//
// The transitions are in block_state.hpp and nowhere else; an illegal one is a bug and aborts, since every
// caller holds what it names. A published block that is retired while readers pin it is freed by the last
// unpin (R02).
//
// Thread-safe. Nothing blocks except create() and allocate() with a deadline.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/clock.hpp"
#include "memory/host_slab.hpp"
#include "stagewire/memory.hpp"
#include "stagewire/result.hpp"

namespace stagewire::memory {

/// Bytes are counted in whole units of Pool::kAlignment, as blocks take them up: free + used = size.
struct PoolStats {
  std::uint64_t size = 0;
  std::uint64_t free = 0;
  std::uint64_t largest_free = 0;
  std::uint64_t blocks = 0;
  std::uint64_t pinned = 0;       ///< bytes in published or retired blocks that are being read
  std::uint64_t quarantined = 0;  ///< bytes
  std::uint64_t waiting = 0;      ///< callers that wait for space
};

/// On what terms a block is asked for.
enum class Claim {
  full,  ///< from all of the pool, first come first served
  spare  ///< only what leaves half of the pool free, and while no full claim waits: for what may lie there
         ///< long
};

class Pool {
 public:
  /// Names a block; the offset of its first byte in the pool.
  using Offset = std::uint64_t;
  using Allocated = std::function<void(Result<Offset>)>;
  /// Names a wait for space; 0 = none.
  using WaitId = std::uint64_t;

  static constexpr std::uint64_t kAlignment = 4096;

  /// As HostSlab::create; blocks while it pre-faults.
  static Result<std::unique_ptr<Pool>> create(std::uint64_t size, const HostSlabOptions& options = {});
  /// Closes. Nobody may be inside a call, and nobody may hold a block.
  virtual ~Pool() = default;

  virtual std::span<std::byte> bytes() const = 0;
  /// What to register with an engine: address, size, memfd.
  virtual MemoryRegion region() const = 0;
  virtual const std::string& page_kind() const = 0;

  /// A staged block. First come first served: nobody overtakes a caller of the same claim that waits, even if
  /// it would fit.
  /// `too_large` at once when it can never fit, with both numbers; `exhausted` when the deadline has passed
  /// already and there is no space, `timeout` when it passed while waiting, both with size, free and largest
  /// free; `closed`; `invalid_argument` for size 0.
  virtual Result<Offset> allocate(std::uint64_t size, base::Deadline deadline, Claim claim = Claim::full) = 0;
  /// The same without blocking: calls back once, at once (then returns 0) or from whichever thread frees the
  /// space, expires the wait or closes the pool. No lock of the pool is held during the call, so it may call
  /// the pool. Whoever uses this calls expire() in time.
  virtual WaitId allocate_async(std::uint64_t size, base::Deadline deadline, Allocated callback,
                                Claim claim = Claim::full) = 0;
  /// A spare claim that waits becomes a full one, the last in that line. Nothing happens if it does not wait.
  virtual void make_full(WaitId wait) = 0;
  /// Ends waits whose deadline has passed. Returns the next deadline.
  virtual base::Deadline expire(base::TimePoint now) = 0;

  virtual void publish(Offset block) = 0;  ///< staged -> published
  virtual void pin(Offset block) = 0;      ///< published: one reader more
  virtual void unpin(Offset block) = 0;    ///< one reader less; frees a retired block when it was the last
  /// published -> free, at once or with the last unpin; no new reader from now on. Returns whether readers
  /// remain.
  virtual bool retire(Offset block) = 0;
  virtual void grant(Offset block) = 0;       ///< staged -> granted
  virtual void end_grant(Offset block) = 0;   ///< granted -> staged: the writer is known to have stopped
  virtual void quarantine(Offset block) = 0;  ///< granted -> quarantined
  virtual void end_quarantine(
      Offset block) = 0;                ///< quarantined -> free: the writer is known to have stopped
  virtual void free(Offset block) = 0;  ///< staged -> free
  /// As it was asked for.
  virtual std::uint64_t size_of(Offset block) const = 0;
  virtual std::uint32_t pins(Offset block) const = 0;

  virtual PoolStats stats() const = 0;
  /// Fails those who wait with `closed`, and all later allocations. Blocks stay valid until the pool is
  /// destroyed.
  virtual void close() = 0;
};

}  // namespace stagewire::memory
