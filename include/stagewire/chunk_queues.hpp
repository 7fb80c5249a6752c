// The chunk path as a scheduler with a step loop sees it: requests that wait for a chunk are kept out of its
// queues until the chunk is there.
//
//   queues.process_pending_chunks(waiting, running, failures);
//   ... schedule from `waiting` and `running` ...
//   queues.restore_queues(waiting, running);
//   ... run the step; each request's input is in request.input ...
//   queues.postprocess(scheduled);
//   ... queues.save(request, output, ...) for each request of the step ...
//
// All of it on the scheduler's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "stagewire/chunk.hpp"

namespace stagewire {

enum class RequestStatus { waiting, running, preempted, waiting_for_chunk, finished };

/// What a request got from the stage before, besides its prompt.
class STAGEWIRE_API AdditionalInformation {
 public:
  AdditionalInformation();
  AdditionalInformation(AdditionalInformation&&) noexcept;
  AdditionalInformation& operator=(AdditionalInformation&&) noexcept;
  ~AdditionalInformation();

  /// A map, or None. Its views are valid until this is changed.
  const Value& value() const;
  /// The chunk becomes all there is, in place; the sender's memory may be pinned until this is changed.
  void replace(Chunk chunk);
  /// Each entry of the payload becomes one here; those of maps are merged one level deep. meta.finished is
  /// left out. Copies, so that the payload may go.
  Status merge(const Value& payload);
  void clear();

 private:
  struct Merged;
  Chunk chunk_;
  std::unique_ptr<Merged> merged_;
  bool is_merged_ = false;
};

/// A request as its scheduler keeps it. The queues change it only while they are called with it.
struct StageRequest {
  std::string internal_id, external_id;
  RequestStatus status = RequestStatus::waiting;
  std::vector<std::int64_t> prompt_ids, output_ids;
  std::int64_t computed_tokens = 0;
  std::int64_t placeholder_tokens = 0;  ///< counted as computed, but not sampled yet
  bool resumable = false;               ///< more segments of input may follow
  std::string speaker, language;

  AdditionalInformation input;
  bool chunk_ready = false;                              ///< `input` is new: no step has used it
  bool segment_received = false;                         ///< nothing more comes for this segment
  bool received = false;                                 ///< nothing more comes at all
  RequestStatus status_before = RequestStatus::waiting;  ///< the wait for a chunk
};

class STAGEWIRE_API ChunkQueues {
 public:
  using Queue = std::deque<StageRequest*>;
  struct Failure {
    std::string internal_id;
    bool sending = false;
    Error error;
  };

  /// `max_running`: requests that a step can run; 0 = no limit. The adapter outlives this.
  explicit ChunkQueues(ChunkTransferAdapter& adapter, std::size_t max_running = 0);

  /// Before scheduling. Takes what has come; requests that have used up their chunk ask for the next and
  /// leave their queue until restore_queues(), those whose chunk has come stay. What `running` has too many
  /// of is preempted: it goes to the front of `waiting`. `failures`: requests that can go on only by finish()
  /// or abort(); added to.
  void process_pending_chunks(Queue& waiting, Queue& running, std::vector<Failure>& failures);
  /// After scheduling: those that wait for a chunk come back, at the end.
  void restore_queues(Queue& waiting, Queue& running);
  /// After a step: what these requests had got is used up.
  void postprocess(std::span<StageRequest* const> scheduled);

  /// Queues what a step made of the request; see ChunkTransferAdapter::save().
  Status save(const StageRequest& request, const Value& output, bool segment_finished = false,
              std::shared_ptr<const void> owner = nullptr);
  /// Another segment of a resumable request begins.
  void resume(StageRequest& request);
  /// The request leaves the scheduler: it may be destroyed, and its ids used again, afterwards. Its status is
  /// what it was before it waited for a chunk.
  void finish(StageRequest& request);
  void abort(StageRequest& request, std::string_view reason);

 private:
  void take_events(std::vector<Failure>& failures);
  void process(Queue& queue, Queue& set_aside, std::vector<Failure>& failures);
  bool must_wait(StageRequest& request, std::vector<Failure>& failures);
  void forget(StageRequest& request);

  ChunkTransferAdapter& adapter_;
  const std::size_t max_running_;
  std::vector<ChunkEvent> events_;
  std::vector<StageRequest*> loading_;
  Queue waiting_set_aside_, running_set_aside_;
};

}  // namespace stagewire
