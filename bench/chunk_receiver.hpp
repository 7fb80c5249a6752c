// The receiving stage of `bench chunks`, by either scheme.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "partner.hpp"
#include "stagewire/payload.hpp"

namespace stagewire::bench {

/// Longer than anything takes between two chunks; a bench that waits so long ends.
inline constexpr int kPatienceMs = 30'000;

/// Numbered streams whose chunks are asked for one after the other. Problems end the program.
class ChunkReceiver {
 public:
  /// A chunk of `stream` that was in the scheduler's hands at `now`. The payload is valid during the call.
  using Take = std::function<void(std::uint32_t stream, double now, const Value& payload)>;

  virtual ~ChunkReceiver() = default;
  /// The stream's next chunk is wanted: its first one when the id is new.
  virtual void load(std::uint32_t stream, const std::string& id) = 0;
  /// Blocks until at least one chunk has come, and gives out all that have.
  virtual void take(const Take& take) = 0;
  /// The stream is over.
  virtual void finish(std::uint32_t stream, const std::string& id) = 0;
  virtual std::uint64_t pool_free() = 0;
};

/// ChunkTransferAdapter over a connector: waits for events.
std::unique_ptr<ChunkReceiver> make_adapter_receiver(const Request& request);
/// The original's scheme: a raw socket that asks for each waiting key in turn and pulls what is there, one at
/// a time. After a pass that found nothing it sleeps for 1 ms.
std::unique_ptr<ChunkReceiver> make_query_pull_receiver(const Request& request);

/// The partner's part in `bench chunks`: what it answers to each of the chunk requests.
class ChunkPartner {
 public:
  using Answer = std::function<void(const std::vector<double>&)>;
  explicit ChunkPartner(Answer answer) : answer_(std::move(answer)) {}

  void open(const Request& request);
  /// Loads all streams of a run; answers when it has.
  void load(const Request& request);
  /// Receives `count` chunks of each stream; answers with the time of the last one, then the put-to-ready
  /// time of each. With one_by_one it answers to each chunk with nothing, before.
  void receive(const Request& request);
  /// Receives the last chunk of each stream; answers with the free bytes of the pool.
  void end();

 private:
  struct Stream {
    std::string id;
    std::uint64_t next_row = 0;
    bool ended = false;
  };
  void take(const std::function<void(double now, double stamp)>& note);

  const Answer answer_;
  std::unique_ptr<ChunkReceiver> receiver_;
  std::vector<Stream> streams_;
};

}  // namespace stagewire::bench
