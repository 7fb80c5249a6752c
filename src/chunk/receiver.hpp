// The receiving half: each request that has loaded is a stream, which has at most one get under way at the
// connector: for its next chunk, before it is asked for, so that the sender knows who wants it and a sender
// that dies is noticed. Nobody polls, and no thread waits.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/string_map.hpp"
#include "chunk/chunk_key.hpp"
#include "chunk/ready_signal.hpp"
#include "stagewire/chunk.hpp"

namespace stagewire::chunk {

class Receiver : public std::enable_shared_from_this<Receiver> {
 public:
  struct Edge {
    std::string from, to;
    ChunkMode mode = ChunkMode::ar;
    std::size_t window = 0;  ///< 0 = no limit
    base::Duration chunk_timeout{0};
  };
  Receiver(Connector& connector, Edge edge, std::shared_ptr<ReadySignal> ready)
      : connector_(connector), edge_(std::move(edge)), ready_signal_(std::move(ready)) {}
  /// Gives up every stream; what still comes is ignored. Before the connector is destroyed.
  void stop();

  Status load(std::string_view internal_id, std::string_view external_id);
  /// Lends the memory of these chunks' payloads to later ones.
  void keep_memory(std::vector<ChunkEvent>& events);
  /// Appends; failures first.
  void take(std::vector<ChunkEvent>& events);
  /// The stream's memory ends here. What it has not received is not wanted any more.
  void forget(std::string_view internal_id);
  /// The same, also of one that has not loaded anything yet: what is sent to it is not wanted.
  void abort(std::string_view internal_id, std::string_view external_id);
  void count(ChunkCounters& counters) const;

 private:
  enum class State {
    held,     ///< by the window: the sender knows, nothing is asked for
    idle,     ///< nothing is asked for: a segment is over
    asked,    ///< a get is under way
    arrived,  ///< it has ended; take() has not seen it
    failed,
    done  ///< the last chunk was taken
  };
  struct Stream {
    std::string internal_id, external_id;
    std::uint64_t id = 0;  ///< never used again: what is late finds nobody
    State state = State::held;
    ChunkKey key;
    std::int64_t next_chunk = 0;
    bool active = false;   ///< counts against the window
    bool loading = false;  ///< the scheduler waits
    base::TimePoint loaded;
    std::optional<Result<Delivery>> arrived;
  };

  // With mutex_ held:
  Stream* find(std::uint64_t id);
  void ask(Stream& stream);
  void watch(Stream& stream);
  void admit();
  void end(Stream& stream);
  void fail(Stream& stream, ErrorCode reason);
  void abandon(Stream& stream);
  void settle(Stream& stream, Result<Delivery> result);
  void release_place(Stream& stream);
  bool timed_out(const Stream& stream) const;
  // Without:
  void got(std::uint64_t id, Result<Delivery> result);
  void take_one(std::uint64_t id, bool failures, std::vector<ChunkEvent>& events);
  Value spare_payload();
  bool received(std::uint64_t id, ChunkEvent& event);

  Connector& connector_;
  const Edge edge_;
  const std::shared_ptr<ReadySignal> ready_signal_;

  std::mutex taking_mutex_;  ///< before mutex_
  std::vector<std::uint64_t> taking_;
  std::vector<Value> spare_payloads_;  ///< of chunks that were taken before; under taking_mutex_

  mutable std::mutex mutex_;  ///< guards what follows; held across calls to the connector, never to others
  bool stopped_ = false;
  std::size_t gets_ = 0;                              ///< under way: each will call us
  std::shared_ptr<Receiver> self_;                    ///< ourselves while there are any
  base::StringMap<std::unique_ptr<Stream>> streams_;  ///< by internal id
  std::unordered_map<std::uint64_t, Stream*> by_id_;
  std::uint64_t last_id_ = 0;
  std::size_t active_ = 0;
  std::deque<std::uint64_t> held_;    ///< in the order of their first load
  std::vector<std::uint64_t> ready_;  ///< arrived, and somebody wants to know
  ChunkCounters counters_;
};

}  // namespace stagewire::chunk
