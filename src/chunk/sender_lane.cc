// From a saved step to a chunk that was put, or to an error at both ends.
#include <exception>

#include "base/log.hpp"
#include "chunk/sender.hpp"

namespace stagewire::chunk {
namespace {

// The chunks of requests that are not received yet must leave room for those that are waited for.
const PutOptions kSpare{.spare = true};

}  // namespace

bool Sender::serve(Lane& lane, const SavedStep& step, std::optional<Result<PoolBuffer>> granted,
                   const std::optional<Status>& heard_out) {
  switch (step.kind) {
    case SavedStep::Kind::end:
      serve_end(lane);
      return true;
    case SavedStep::Kind::abort:
      serve_abort(lane, step.reason);
      return true;
    case SavedStep::Kind::step:
      break;
  }
  if (!lane.work.begun) begin(lane, step);
  if (lane.work.reused && !lane.work.failed) {
    if (!heard_out) return hear_out_receivers(lane);
    lane.work.reused = false;
    if (!*heard_out) fail(lane, 0, heard_out->error());
  }
  if (!lane.work.payload || lane.work.failed) return serve_step(lane, step);
  // It waited for space, or was about to and something else happened.
  if (!granted) return put(lane, step);
  put_granted(lane, step, std::move(*granted));
  return true;
}

bool Sender::serve_step(Lane& lane, const SavedStep& step) {
  Lane::Work& work = lane.work;
  if (work.failed) {
    {
      const std::lock_guard lock(mutex_);
      ++counters_.discarded;
    }
    if (step.flags.finished) forget(lane, true);
    return true;
  }
  step.prompt_ids.apply(work.prompt_ids);
  step.output_ids.apply(work.output_ids);
  const Result<Value*> payload = process(lane, step);
  Status usable = payload ? Status() : Status(payload.error());
  if (usable && *payload == nullptr && !step.terminal()) return true;
  if (usable) {
    if (*payload == nullptr) work.end = Value(Value::Map{});
    work.payload = *payload != nullptr ? *payload : &work.end;
    usable = set_flags(*work.payload, step.flags);
  }
  if (usable) return put(lane, step);
  fail(lane, work.next_chunk, usable.error());
  if (step.flags.finished) forget(lane, true);
  return true;
}

Result<Value*> Sender::process(Lane& lane, const SavedStep& step) {
  const Lane::Work& work = lane.work;
  const ChunkRequest request{step.internal_id, lane.external_id, work.prompt_ids, work.output_ids,
                             step.resumable,   step.speaker,     step.language};
  try {
    return processor_->process(request, step.output(), step.terminal());
  } catch (const std::exception& exception) {
    return base::error(ErrorCode::failed, "the processor threw: ", exception.what());
  }
}

bool Sender::put(Lane& lane, const SavedStep& step) {
  const auto put = connector_.put(edge_.from, edge_.to, lane.work.key.at(lane.work.next_chunk),
                                  *lane.work.payload, kSpare);
  if (!put && put.error().code() == ErrorCode::exhausted) return wait_for_space(lane);
  after_put(lane, step, put);
  return true;
}

// The pool is full. It grants in the order in which it was asked; the worker goes on with other lanes.
bool Sender::wait_for_space(Lane& lane) {
  const auto size = encoded_size(*lane.work.payload);
  std::uint64_t ticket = 0;
  {
    const std::lock_guard lock(mutex_);
    if (lane.given_up) return false;  // it is looked at before this step, next time
    if (lane.aborting) {
      lane.work.payload = nullptr;
      ++counters_.discarded;
      return true;
    }
    ticket = start_wait(lane, WaitFor::space);
  }
  const Status asked =
      connector_.allocate_async(edge_.from, edge_.to, lane.work.key.at(lane.work.next_chunk), *size,
                                {.timeout = edge_.space_timeout, .spare = true},
                                [weak = weak_from_this(), ticket](Result<PoolBuffer> buffer) {
                                  if (const auto self = weak.lock()) {
                                    self->space_granted(ticket, std::move(buffer));
                                  }
                                });
  if (!asked) space_granted(ticket, asked.error());
  return false;
}

void Sender::space_granted(std::uint64_t ticket, Result<PoolBuffer> buffer) {
  const Turn turn(*this);
  // If it was interrupted the block goes back.
  if (Lane* const lane = end_wait(ticket)) lane->granted.emplace(std::move(buffer));
}

// The id was used before: what receivers have said of that use must not be taken for said of this one.
bool Sender::hear_out_receivers(Lane& lane) {
  std::uint64_t ticket = 0;
  {
    const std::lock_guard lock(mutex_);
    if (lane.aborting) {
      ++counters_.discarded;
      return true;
    }
    lane.hearing_out = true;
    lane.given_up.reset();
    ticket = start_wait(lane, WaitFor::receivers);
  }
  connector_.catch_up(edge_.space_timeout, [weak = weak_from_this(), ticket](const Status& status) {
    const auto self = weak.lock();
    if (!self) return;
    const Turn turn(*self);
    Lane* const waiting = self->end_wait(ticket);
    if (waiting == nullptr) return;
    waiting->hearing_out = false;
    waiting->heard_out.emplace(status);
  });
  return false;
}

void Sender::put_granted(Lane& lane, const SavedStep& step, Result<PoolBuffer> buffer) {
  Status filled = buffer ? Status() : Status(buffer.error());
  if (filled) {
    const auto written = encode(*lane.work.payload, buffer->bytes());
    if (!written) filled = written.error();
  }
  if (!filled) return after_put(lane, step, filled.error());
  PutOptions options;
  options.encoded_object = true;
  after_put(lane, step,
            connector_.put(edge_.from, edge_.to, lane.work.key.at(lane.work.next_chunk), std::move(*buffer),
                           options));
}

void Sender::after_put(Lane& lane, const SavedStep& step, const Result<PutResult>& put) {
  Lane::Work& work = lane.work;
  work.payload = nullptr;
  if (!put) {
    fail(lane, work.next_chunk, put.error());
    if (step.flags.finished) forget(lane, true);
    return;
  }
  ++work.next_chunk;
  {
    const std::lock_guard lock(mutex_);
    ++counters_.sent;
  }
  if (step.flags.finished) return forget(lane, false);
  if (step.flags.segment_finished) processor_->end_segment(lane.external_id);
}

void Sender::begin(Lane& lane, const SavedStep& step) {
  Lane::Work& work = lane.work;
  work.begun = true;
  work.internal_id = step.internal_id;
  work.key.begin(lane.external_id, edge_.from);
  const auto past = past_.take(lane.external_id);
  if (!past) return;
  work.reused = true;
  // What was aborted was the former use.
  for (std::int64_t chunk = 0; past->aborted && chunk <= past->chunks; ++chunk) {
    static_cast<void>(connector_.cleanup(work.key.at(chunk), edge_.from, edge_.to));
  }
}

void Sender::serve_end(Lane& lane) {
  if (!lane.work.begun) return;
  if (!lane.work.failed)
    tell(lane, lane.work.next_chunk, base::text("it ended at stage ", edge_.from, " without a last chunk"));
  forget(lane, true);
}

void Sender::serve_abort(Lane& lane, std::string_view reason) {
  {
    const std::lock_guard lock(mutex_);
    lane.aborting = false;
  }
  Lane::Work& work = lane.work;
  if (work.begun) {
    if (!work.failed) tell(lane, work.next_chunk, reason);
    withdraw(lane, work.next_chunk, reason);
    forget(lane, true);
    // What the receiver gave up by now was this use.
    const std::lock_guard lock(mutex_);
    lane.given_up.reset();
    return;
  }
  work.key.begin(lane.external_id, edge_.from);
  PastRequest* const past = past_.find(lane.external_id);
  if (past == nullptr) {
    tell(lane, 0, reason);
    past_.add(lane.external_id, {0, true});
  } else if (!past->aborted) {
    // All of it has been sent already: what is still here goes.
    withdraw(lane, past->chunks, reason);
    past->aborted = true;
  }
}

// The receiver wants no chunk from this one on.
void Sender::give_up(Lane& lane, const GivenUp& given_up) {
  Lane::Work& work = lane.work;
  work.key.begin(lane.external_id, edge_.from);
  std::int64_t end = work.next_chunk;
  if (!work.begun) {
    const PastRequest* const past = past_.find(lane.external_id);
    if (past == nullptr) return;
    end = past->chunks;
  }
  for (std::int64_t chunk = given_up.chunk; chunk < end; ++chunk) {
    connector_.withdraw(edge_.from, edge_.to, work.key.at(chunk), {});
  }
  if (!work.begun || work.failed) return;
  const std::int64_t first = std::min(given_up.chunk, end);
  fail(lane, first, given_up.error);
  // It knows: nobody is to be told later.
  static_cast<void>(connector_.cleanup(work.key.at(first), edge_.from, edge_.to));
}

// The request can send nothing more, from this chunk on: both schedulers are told.
void Sender::fail(Lane& lane, std::int64_t chunk, const Error& error) {
  Lane::Work& work = lane.work;
  work.failed = true;
  work.payload = nullptr;
  const Error told =
      error.with_context(base::text("chunk ", chunk, " of ", lane.external_id, " to stage ", edge_.to));
  tell(lane, chunk, told.to_string());
  processor_->forget(lane.external_id);
  {
    const std::lock_guard lock(mutex_);
    ++counters_.send_errors;
    failures_.push_back({work.internal_id, told});
    // By the worker: whoever saves may hold what the scheduler wants to have when it is told.
    raise_due_ = true;
  }
  wake_.notify_one();
}

// The serving thread's part of this use of the id is over.
void Sender::forget(Lane& lane, bool aborted) {
  processor_->forget(lane.external_id);
  past_.add(lane.external_id, {lane.work.next_chunk, aborted});
  Lane::Work fresh;
  std::swap(fresh, lane.work);
}

// The receiver is told why this chunk will not come.
void Sender::tell(Lane& lane, std::int64_t chunk, std::string_view reason) {
  connector_.abort(edge_.from, edge_.to, lane.work.key.at(chunk), reason);
}

// Drops those of the first `count` chunks that nobody has taken. The last ones first: whoever asks is to be
// told for the one that it asks for.
void Sender::withdraw(Lane& lane, std::int64_t count, std::string_view reason) {
  for (std::int64_t chunk = count - 1; chunk >= 0; --chunk) {
    connector_.withdraw(edge_.from, edge_.to, lane.work.key.at(chunk), reason);
  }
}

}  // namespace stagewire::chunk
