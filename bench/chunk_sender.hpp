// The sending stage of `bench chunks`: a connector, an adapter and the thinker's traffic.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "chunk_rows.hpp"
#include "partner.hpp"
#include "stagewire/chunk.hpp"

namespace stagewire::bench {

struct ChunkSenderOptions {
  bool query_pull = false;  ///< how the partner receives
  WaitStrategy wait = WaitStrategy::adaptive;
  std::uint64_t pool_size = 64ULL << 20U;
  bool as_made = false;  ///< sends what is saved as it is, instead of with the thinker's processor
};

/// Opens both ends; one set of streams at a time. Problems end the program.
class ChunkSender {
 public:
  static constexpr int kStepsPerSecond = 50;  ///< of send_paced()

  explicit ChunkSender(const ChunkSenderOptions& options);

  /// New streams: their first chunk has been received when it returns, and each waits for its next one.
  void begin(std::uint32_t streams);
  /// Sends `count` chunks of each stream as fast as they go; chunks a second.
  double send(std::uint32_t count);
  /// Sends a chunk of each stream at once, as a model's step does, 50 times a second; put-to-ready times,
  /// microseconds.
  std::vector<double> send_paced(std::uint32_t steps);
  /// Sends chunks of a single stream, each when the one before has been taken and the receiver sleeps.
  std::vector<double> send_one_by_one(std::uint32_t count);
  /// Sends the last chunk of each stream, and has it received.
  void end();
  /// One request of one payload, which `rows` is to be stamped for; its put-to-ready time. With as_made.
  double send_whole(const Value& payload, ModelRows& rows);

  const Partner& partner() const { return partner_; }
  std::uint64_t pool_free() { return connector_->health().pool_free; }
  std::uint64_t partner_pool_free() const { return partner_pool_free_; }

 private:
  void load(std::uint32_t streams);
  void save_row(std::uint32_t stream);
  void save(std::uint32_t stream, const Value& output, bool finished, std::shared_ptr<const void> owner = {});
  void flush();
  void check_events();
  Request receive_request(std::uint32_t count) const;

  Partner partner_;
  std::unique_ptr<Connector> connector_;
  std::unique_ptr<ChunkTransferAdapter> adapter_;
  std::uint64_t partner_pool_free_ = 0;
  std::uint32_t run_ = 0;
  std::vector<std::string> ids_;           // of each stream
  std::vector<std::uint64_t> row_counts_;  // of each stream, saved so far
  std::vector<std::int64_t> tokens_;       // as many as the longest stream has rows
  std::vector<ChunkEvent> events_;
  ModelRows row_{1};
  const Value first_output_ = thinker_output(row_, true);
  const Value output_ = thinker_output(row_, false);
};

}  // namespace stagewire::bench
