#include "stagewire/chunk_queues.hpp"

#include <algorithm>

#include "chunk/apply_chunk.hpp"

namespace stagewire {

ChunkQueues::ChunkQueues(ChunkTransferAdapter& adapter, std::size_t max_running)
    : adapter_(adapter), max_running_(max_running) {}

void ChunkQueues::process_pending_chunks(Queue& waiting, Queue& running, std::vector<Failure>& failures) {
  take_events(failures);
  if (!adapter_.receives()) return;
  process(waiting, waiting_set_aside_, failures);
  process(running, running_set_aside_, failures);
  while (max_running_ > 0 && running.size() > max_running_) {
    StageRequest* const last = running.back();
    running.pop_back();
    last->status = RequestStatus::preempted;
    waiting.push_front(last);
  }
}

void ChunkQueues::take_events(std::vector<Failure>& failures) {
  adapter_.take(events_);
  for (ChunkEvent& event : events_) {
    if (!event.chunk) {
      failures.push_back({std::string(event.internal_id), event.sending, event.chunk.error()});
      continue;
    }
    const auto place = std::find_if(loading_.begin(), loading_.end(), [&](const StageRequest* request) {
      return request->internal_id == event.internal_id;
    });
    if (place == loading_.end()) continue;  // loaded by somebody else
    StageRequest& request = **place;
    loading_.erase(place);
    const std::int64_t index = event.chunk->index;
    const Status applied = chunk::apply_chunk(request, std::move(*event.chunk), adapter_.mode());
    if (applied) continue;
    failures.push_back(
        {request.internal_id, false, applied.error().with_context("chunk " + std::to_string(index))});
  }
  events_.clear();
}

void ChunkQueues::process(Queue& queue, Queue& set_aside, std::vector<Failure>& failures) {
  const auto waits = [&](StageRequest* request) {
    if (!must_wait(*request, failures)) return false;
    set_aside.push_back(request);
    return true;
  };
  queue.erase(std::remove_if(queue.begin(), queue.end(), waits), queue.end());
}

bool ChunkQueues::must_wait(StageRequest& request, std::vector<Failure>& failures) {
  if (request.status == RequestStatus::waiting_for_chunk) {
    if (!request.chunk_ready) return true;
    request.status = request.status_before;
    return false;
  }
  if (request.chunk_ready) return false;
  if (request.received || request.segment_received) {
    request.input.clear();
    return false;
  }
  const Status loading = adapter_.load(request.internal_id, request.external_id);
  if (loading) {
    loading_.push_back(&request);
  } else {
    failures.push_back({request.internal_id, false, loading.error()});
  }
  request.status_before = request.status;
  request.status = RequestStatus::waiting_for_chunk;
  return true;
}

void ChunkQueues::restore_queues(Queue& waiting, Queue& running) {
  waiting.insert(waiting.end(), waiting_set_aside_.begin(), waiting_set_aside_.end());
  running.insert(running.end(), running_set_aside_.begin(), running_set_aside_.end());
  waiting_set_aside_.clear();
  running_set_aside_.clear();
}

void ChunkQueues::postprocess(std::span<StageRequest* const> scheduled) {
  for (StageRequest* const request : scheduled) {
    request->chunk_ready = false;
    if (adapter_.mode() == ChunkMode::ar) request->input.clear();
  }
}

Status ChunkQueues::save(const StageRequest& request, const Value& output, bool segment_finished,
                         std::shared_ptr<const void> owner) {
  ChunkRequest view;
  view.internal_id = request.internal_id;
  view.external_id = request.external_id;
  view.prompt_ids = request.prompt_ids;
  view.output_ids = request.output_ids;
  view.resumable = request.resumable;
  view.speaker = request.speaker;
  view.language = request.language;
  StepState state;
  state.finished = request.status == RequestStatus::finished;
  state.segment_finished = segment_finished;
  state.confirmed_tokens = request.computed_tokens - request.placeholder_tokens;
  return adapter_.save(view, output, state, std::move(owner));
}

void ChunkQueues::resume(StageRequest& request) {
  request.segment_received = false;
}

void ChunkQueues::finish(StageRequest& request) {
  adapter_.finish(request.internal_id, request.external_id);
  forget(request);
}

void ChunkQueues::abort(StageRequest& request, std::string_view reason) {
  adapter_.abort(request.internal_id, request.external_id, reason);
  forget(request);
}

void ChunkQueues::forget(StageRequest& request) {
  std::erase(loading_, &request);
  std::erase(waiting_set_aside_, &request);
  std::erase(running_set_aside_, &request);
  if (request.status == RequestStatus::waiting_for_chunk) request.status = request.status_before;
  request.input.clear();
  request.chunk_ready = false;
}

}  // namespace stagewire
