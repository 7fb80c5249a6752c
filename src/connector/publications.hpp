// The sending side: what was put and not yet taken, who waits for what, and which blocks are being read.
//
// An entry owns one published block of the pool. A receiver that is told of it gets a lease, which pins the
// block until it is released or its holder is lost; the entry itself goes when a release says that the
// payload was taken. Nothing else frees a block that is pinned: not expiry, not cleanup, not a second put
// (R02).
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/string_map.hpp"
#include "connector/aborted_keys.hpp"
#include "connector/source.hpp"
#include "engine/core.hpp"
#include "memory/pool.hpp"
#include "stagewire/connector.hpp"

namespace stagewire::connector {

using base::StringMap;

struct SenderCounters {
  std::uint64_t puts = 0;
  std::uint64_t bytes = 0;
  std::uint64_t errors = 0;
  std::uint64_t expired = 0;
  std::uint64_t published = 0;  ///< now
  std::uint64_t watched = 0;    ///< now
};

/// How often what has outlived `ttl` is looked for.
base::Duration sweep_interval(base::Duration ttl);

class Publications {
 public:
  Publications(std::shared_ptr<engine::Core> core, std::shared_ptr<memory::Pool> pool,
               std::shared_ptr<engine::LocalRegion> region, base::Duration ttl);

  /// The caller checked the key and that the size is not zero. `spare`: see PutOptions.
  Status put(std::string_view key, const Source& source, base::Deadline deadline, bool spare);
  /// The block becomes the entry's; on failure the buffer is freed.
  Status put(std::string_view key, PoolBuffer buffer, wire::PayloadKind kind);

  /// See Connector::allocate_async().
  void allocate(std::string_view key, std::uint64_t size, base::Deadline deadline, bool spare,
                std::function<void(Result<PoolBuffer>)> callback);

  /// Unread, it is dropped; read, it is hidden now and freed by the last reader. That it was aborted is
  /// forgotten.
  void drop(std::string_view key);
  /// The same, and with a reason the next who asks is told; false when there is nothing under the key.
  bool withdraw(std::string_view key, std::string_view reason);
  /// drop(), and whoever waits for it, now or later, is told so.
  void abort(std::string_view key, std::string_view reason);
  /// See Connector::on_abandoned().
  void on_abandoned(Connector::AbandonListener listener);
  /// See Connector::catch_up().
  void catch_up(base::Duration timeout, std::function<void(Status)> callback);
  Status drain(base::Deadline deadline);
  void close();

  void on_watch(const engine::PeerPtr& peer, const wire::Watch& watch);
  void on_unwatch(const engine::PeerPtr& peer, const wire::Unwatch& unwatch);
  void on_release(const engine::PeerPtr& peer, const wire::Release& release);
  void on_pull(const engine::PeerPtr& peer, wire::Pull pull);
  void on_cancel(const engine::PeerPtr& peer, const wire::Cancel& cancel);
  void on_pong(const engine::PeerPtr& peer, const wire::Pong& pong);
  void on_lost(const engine::PeerPtr& peer);
  /// The original's query and pull.
  void on_original_request(const control::CallerId& caller, wire::OriginalRequest request);

  SenderCounters counters() const;

 private:
  struct Entry {
    memory::Pool::Offset block = 0;
    std::uint64_t size = 0;
    wire::PayloadKind kind = wire::PayloadKind::bytes;
    DType dtype = DType::uint8;
    std::vector<std::int64_t> shape;
    std::uint64_t put_time_ns = 0;
    std::uint32_t readers = 0;  ///< leases and writes under way
  };
  struct Waiting {
    engine::PeerPtr peer;
    bool eager = true;
    bool wake = true;
    std::uint64_t watch = 0;
  };
  struct Lease {
    engine::PeerPtr peer;
    std::string key;
    memory::Pool::Offset block = 0;
    std::uint64_t watch = 0;
  };
  /// A key waits for space, and nobody had asked for it.
  struct SpareWait {
    std::uint64_t ticket = 0;
    memory::Pool::WaitId wait = 0;
  };
  /// Receivers that have not said by a pong that they have said everything.
  struct CatchUp {
    std::set<engine::Peer*> silent;
    engine::Core::TimerId timer = 0;
    std::function<void(Status)> callback;
  };
  using CatchUps = std::map<std::uint64_t, CatchUp>;
  /// A write into a block that a receiver granted.
  struct Write {
    std::shared_ptr<engine::TransferImpl> transfer;
    std::string key;
    memory::Pool::Offset block = 0;
  };

  bool put_eagerly(std::string_view key, const Source& source, Status* status);
  Status publish(std::string_view key, const Source& source, memory::Pool::Offset block);
  Status check_free(std::string_view key);
  bool being_read(std::string_view key);
  memory::Claim claim_of(std::string_view key) const;
  bool is_asked_for(std::string_view key) const;
  void count_put(std::uint64_t size);
  Status count_error(Status status);
  void offer(const std::string& key, Entry& entry);
  bool offer_eagerly(const std::string& key, Entry& entry, const Waiting& receiver);
  void erase(base::ReusingStringMap<Entry>::iterator entry);
  void first_was_told(base::ReusingStringMap<std::vector<Waiting>>::iterator waiting);
  void report_abandoned(std::string_view key, bool taken, const Error& reason);
  CatchUps::iterator heard(CatchUps::iterator catch_up, engine::Peer* peer);
  void end_catch_up(CatchUps::iterator catch_up, const Status& status);
  void reader_left(const std::string& key, memory::Pool::Offset block, bool consumed);
  void sweep();
  // publications_write.cc
  Result<std::shared_ptr<engine::TransferImpl>> make_write(const engine::PeerPtr& peer,
                                                           std::span<const std::byte> memory,
                                                           const Entry& entry, std::uint64_t offset);
  void serve_original_pull(const control::CallerId& caller, const wire::OriginalPull& pull);
  Status try_original_pull(const control::CallerId& caller, const wire::OriginalPull& pull);
  void original_pull_ended(const control::CallerId& caller, const std::string& key,
                           memory::Pool::Offset block, const Status& status);
  void pull_ended(const engine::PeerPtr& peer, std::uint64_t id, const Status& status);

  const std::shared_ptr<engine::Core> core_;
  const std::shared_ptr<memory::Pool> pool_;
  const std::shared_ptr<engine::LocalRegion> region_;
  const base::Duration ttl_;

  mutable std::mutex mutex_;
  bool closed_ = false;
  base::ReusingStringMap<Entry> entries_;
  base::ReusingStringMap<std::vector<Waiting>> waiting_;  ///< first come first served
  std::unordered_map<std::uint64_t, Lease> leases_;
  std::uint64_t next_lease_ = 1;
  std::map<std::pair<engine::Peer*, std::uint64_t>, Write> writes_;  ///< by peer and pull id
  StringMap<SpareWait> spare_waits_;                                 ///< by key
  std::uint64_t last_spare_wait_ = 0;
  AbortedKeys aborted_;
  Connector::AbandonListener listener_;
  CatchUps catch_ups_;  ///< by the id of their pings
  std::uint64_t last_ping_ = 0;
  base::EventList empty_waiters_;
  SenderCounters counters_;
  base::LogLimiter expiry_log_;
  base::LogLimiter refusal_log_;
};

}  // namespace stagewire::connector
