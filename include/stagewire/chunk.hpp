// The chunk path between two stages: what a model makes step by step, sent as numbered chunks of a request.
//
// A ChunkProcessor turns the output of one step into the payload of the next stage's next chunk. A
// ChunkTransferAdapter stands between a stage's scheduler and its connector: save() what a step made, load()
// what the stage before has made, take() what has come. docs/chunk-path.md explains the path with a picture.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "stagewire/connector.hpp"
#include "stagewire/payload.hpp"
#include "stagewire/result.hpp"

namespace stagewire {

/// What the adapter and the processors may know of a request. The views are valid during the call.
struct ChunkRequest {
  std::string_view internal_id;  ///< this stage's own id
  std::string_view external_id;  ///< the id that all stages share: part of the key
  std::span<const std::int64_t> prompt_ids;
  std::span<const std::int64_t> output_ids;
  bool resumable = false;    ///< streaming input: more segments may follow
  std::string_view speaker;  ///< empty = none
  std::string_view language;
};

/// Turns what a stage's model made in one step into the payload of the next stage's next chunk. Called by one
/// thread at a time.
class ChunkProcessor {
 public:
  virtual ~ChunkProcessor() = default;
  /// `output`: what the model made in this step, a map; None when there is only the end to be told.
  /// `terminal`: the request, or its segment, ends with this call. nullptr: nothing to send yet. The payload
  /// stays the processor's, so that it is built once for many chunks; the caller may set fields of its
  /// `meta`. It and its views are valid until the next call for the same request, end_segment() and forget()
  /// included.
  virtual Result<Value*> process(const ChunkRequest& request, const Value& output, bool terminal) = 0;
  /// Drops what belongs to the segment that ended.
  virtual void end_segment(std::string_view external_id) = 0;
  /// Drops everything of the request.
  virtual void forget(std::string_view external_id) = 0;
};

/// The processors' configuration keys, with vLLM-Omni's names.
struct ChunkProcessorOptions {
  int codec_chunk_frames = 25;         ///< new frames of a chunk
  int codec_left_context_frames = 25;  ///< most frames before them that are sent again
  int initial_codec_chunk_frames = 0;  ///< new frames of the first chunk; 0 = as all others
};

/// The processor of this name: "qwen3_omni.thinker2talker_async_chunk",
/// "qwen3_omni.talker2code2wav_async_chunk", the same with "qwen2_5_omni", and "..._full_payload" of each.
/// `invalid_argument` names those that exist.
STAGEWIRE_API Result<std::unique_ptr<ChunkProcessor>> make_chunk_processor(
    std::string_view name, const ChunkProcessorOptions& options);

/// What a stage does with what comes: an autoregressive one (ar) has its additional information replaced by
/// each chunk, a generation one gets the codes as its prompt and the rest merged into what it has.
enum class ChunkMode { ar, generation };

struct ChunkAdapterOptions {
  int stage_id = 0;
  std::optional<int> source_stage;  ///< chunks come from there; nullopt = stage_id - 1, nobody for stage 0
  std::optional<int> target_stage;  ///< they go there; nullopt = stage_id + 1
  ChunkMode mode = ChunkMode::ar;
  std::size_t active_stream_window = 0;  ///< requests that receive at once, first come first served; 0 = all
  Milliseconds space_timeout{30'000};   ///< that a chunk waits for space in the pool before its request fails
  Milliseconds chunk_timeout{300'000};  ///< that a load waits before its request fails; 0 = for ever
  /// Called, on a thread of the library or one that is in wait(), when take() has something again; must not
  /// block or destroy the adapter. Empty = nobody.
  std::function<void()> on_ready;
};

/// Where a request stands after a step.
struct StepState {
  bool finished = false;          ///< the request is over; a resumable one goes on all the same
  bool segment_finished = false;  ///< a segment of its streaming input is over
  /// Tokens computed so far, less those that are only placeholders yet. Fewer than before: the request was
  /// preempted and computes again what has been sent, so nothing is sent until it is where it was.
  std::int64_t confirmed_tokens = 0;
};

/// A chunk in place. The payload's views point into the delivery and are valid as long as that is.
struct Chunk {
  std::int64_t index = 0;         ///< counts from 0 within the request
  bool finished = false;          ///< the last one of its request
  bool segment_finished = false;  ///< the last one of its segment
  Delivery delivery;
  Value payload;
};

/// What became of a request: a chunk has come, or none will come or can be sent any more.
struct ChunkEvent {
  std::string_view
      internal_id;       ///< valid until the next take(), and until finish() or abort() of the request
  bool sending = false;  ///< the error is about what the request sends
  Result<Chunk> chunk;
};

struct ChunkCounters {
  std::uint64_t sent = 0;            ///< chunks handed to the connector
  std::uint64_t received = 0;        ///< chunks handed to the scheduler
  std::uint64_t empty = 0;           ///< chunks without codes that a generation stage was not bothered with
  std::uint64_t recomputed = 0;      ///< saves that were left out: computed again after a preemption
  std::uint64_t discarded = 0;       ///< saves of requests that had failed or were aborted
  std::uint64_t send_errors = 0;     ///< requests that failed while sending
  std::uint64_t receive_errors = 0;  ///< requests that failed while receiving
  std::uint64_t waiting = 0;         ///< now: loads that wait for their chunk
  std::uint64_t held = 0;            ///< now: of these, held back by the window
  std::uint64_t queued = 0;          ///< now: saves that have not been sent
  std::uint64_t waiting_for_space = 0;  ///< now: requests whose chunk waits for space in the pool
};

/// One stage's end of its two edges. Every function may be called from any thread, and none but wait(),
/// flush() and the destructor blocks.
///
/// A request is known by its internal id on the receiving half and by its external id in keys and on the
/// sending half. Its state begins with its first load() or save() and dies with finish() or abort(); the same
/// ids may be used again once both stages have ended their former use, and flush() has returned at the one
/// that sends. Chunks of a request are sent and received in order; requests do not wait for each other.
/// Nothing is dropped in silence: a chunk that cannot be sent, a sender or a receiver that is lost or gives
/// up end the request with an error at both ends.
class STAGEWIRE_API ChunkTransferAdapter {
 public:
  /// `connector` outlives the adapter; an adapter that sends is the only one on it. `processor` may be null
  /// for a stage that sends nothing. `invalid_argument`: options that contradict each other. `exhausted`: a
  /// thread is needed to send, and none is to be had.
  static Result<std::unique_ptr<ChunkTransferAdapter>> create(Connector& connector,
                                                              std::unique_ptr<ChunkProcessor> processor,
                                                              const ChunkAdapterOptions& options);
  /// Receivers of requests that have not been finished are told so. flush() first to send what is queued.
  ~ChunkTransferAdapter();
  ChunkTransferAdapter(const ChunkTransferAdapter&) = delete;
  ChunkTransferAdapter& operator=(const ChunkTransferAdapter&) = delete;

  // --- Sending ---
  /// Queues what a step made: `output` is a map, or None when there is only an end to be told. With an
  /// `owner`, which keeps the memory that the output's views point to, it is not copied. A small step is sent
  /// at once, on this thread, when nothing else waits to be sent; none waits for space or a receiver here.
  /// The request's ids are taken to grow only, except after the end of a segment. `invalid_argument`: the
  /// stage sends nothing, the id is empty or too long, or a tensor's fields contradict each other.
  Status save(const ChunkRequest& request, const Value& output, const StepState& state,
              std::shared_ptr<const void> owner = nullptr);
  /// Blocks until everything that was saved has been handed to the connector or has failed; `timeout` says
  /// how much has not. Connector::drain() then waits until it has been taken.
  Status flush(Milliseconds timeout);

  // --- Receiving ---
  /// Asks for the request's next chunk: take() will have it, or the error that ends the request. Asking twice
  /// is asking once. `closed`: it has had its last chunk; `invalid_argument`: the stage receives nothing, the
  /// id is empty or too long, or the internal id is in use for another external one.
  Status load(std::string_view internal_id, std::string_view external_id);

  // --- Both ---
  /// Puts what has become of requests since the last call into `events`, errors first. What is in `events`
  /// ends; its memory is used again, so that a chunk like those before takes none.
  void take(std::vector<ChunkEvent>& events);
  /// Blocks until take() has something (true) or the time is over. This thread does the connector's work
  /// meanwhile, so that a chunk which comes wakes nobody else.
  bool wait(Milliseconds timeout);
  /// The request is over at this stage. What was saved is still sent; if no last chunk was among it, the
  /// receiver is told that none will come. What has not been received is not wanted any more.
  void finish(std::string_view internal_id, std::string_view external_id);
  /// The request is given up: what has not been sent or taken is dropped, both neighbours are told `reason`.
  void abort(std::string_view internal_id, std::string_view external_id, std::string_view reason);
  ChunkCounters counters() const;
  ChunkMode mode() const;
  bool receives() const;  ///< false for the first stage

 private:
  class Impl;
  explicit ChunkTransferAdapter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace stagewire
