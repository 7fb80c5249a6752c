#include "chunk/sender.hpp"

#include <pthread.h>

#include "base/text.hpp"
#include "base/thread.hpp"

namespace stagewire::chunk {
namespace {

constexpr std::size_t kServedHere = 64 << 10;  // bytes of a step

}  // namespace

Sender::Sender(Connector& connector, std::unique_ptr<ChunkProcessor> processor, Edge edge,
               std::shared_ptr<ReadySignal> ready)
    : connector_(connector),
      processor_(std::move(processor)),
      edge_(std::move(edge)),
      ready_signal_(std::move(ready)) {}

Sender::~Sender() {
  stop();
}

Status Sender::start() {
  const std::string purpose = base::text("the thread that sends the chunks of stage ", edge_.from);
  if (Status started = base::start_thread(worker_, purpose, [this] { run(); }); !started) return started;
  pthread_setname_np(worker_.native_handle(), "stagewire-chunk");
  connector_.on_abandoned([weak = weak_from_this()](std::string_view key, bool, const Error& reason) {
    if (const auto self = weak.lock()) self->receiver_gave_up(key, reason);
  });
  return {};
}

void Sender::stop() {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || !worker_.joinable()) return;
    stopping_ = true;
  }
  connector_.on_abandoned({});
  wake_.notify_all();
  worker_.join();
  flushed_.notify_all();
  for (const auto& entry : lanes_) {
    Lane& lane = *entry.second;
    if (!lane.work.begun && !lane.open) continue;
    lane.work.key.begin(lane.external_id, edge_.from);
    connector_.abort(edge_.from, edge_.to, lane.work.key.at(lane.work.next_chunk),
                     base::text("stage ", edge_.from, " was closed before the last chunk"));
  }
}

Status Sender::save(const ChunkRequest& request, const Value& output, const StepState& state,
                    std::shared_ptr<const void> owner) {
  SavedStep* step = nullptr;
  {
    const std::lock_guard lock(mutex_);
    step = take_step();
  }
  step->kind = SavedStep::Kind::step;
  step->flags = {state.finished && !request.resumable, state.segment_finished};
  step->internal_id = request.internal_id;
  step->speaker = request.speaker;
  step->language = request.language;
  step->resumable = request.resumable;
  step->owner = std::move(owner);
  Status copied;
  if (step->owner) {
    step->borrowed = output;
  } else {
    copied = step->copy.assign(output);
  }
  Turn turn(*this);
  if (!copied) {
    recycle(step);
    return copied.error().with_context(base::text("save of ", request.external_id));
  }
  if (stopping_) {
    recycle(step);
    return base::error(ErrorCode::closed, "save of ", request.external_id, ": the adapter was closed");
  }
  Lane& lane = lane_of(request.external_id);
  if (lane.open && state.confirmed_tokens < lane.watermark) {
    ++counters_.recomputed;
    if (!step->terminal()) {
      recycle(step);
      return {};
    }
    // The end must be told all the same.
    step->owner.reset();
    static_cast<void>(step->copy.assign(Value()));
  } else {
    lane.watermark = state.confirmed_tokens;
  }
  step->prompt_ids.set(request.prompt_ids, lane.open ? lane.prompt_count : 0);
  step->output_ids.set(request.output_ids, lane.open ? lane.output_count : 0);
  lane.open = !step->flags.finished;
  lane.prompt_count = request.prompt_ids.size();
  lane.output_count = request.output_ids.size();
  if (step->flags.segment_finished) {
    lane.watermark = 0;
    lane.prompt_count = 0;
    lane.output_count = 0;
  }
  enqueue(lane, step);
  if (can_be_served_here(lane, *step)) serve_first(turn.lock());
  return {};
}

void Sender::finish(std::string_view external_id) {
  const Turn turn(*this);
  Lane* const lane = find(external_id);
  if (lane == nullptr || !lane->open || stopping_) return;
  lane->open = false;
  SavedStep* const step = take_step();
  step->kind = SavedStep::Kind::end;
  enqueue(*lane, step);
}

void Sender::abort(std::string_view external_id, std::string_view reason) {
  const Turn turn(*this);
  if (stopping_) return;
  // Also of a request that is not known (yet): its receiver may wait already.
  Lane& lane = lane_of(external_id);
  drop_steps(lane);
  lane.open = false;
  SavedStep* const step = take_step();
  step->kind = SavedStep::Kind::abort;
  step->reason = reason;
  lane.aborting = true;
  enqueue(lane, step);
  interrupt(lane);
}

Status Sender::flush(Milliseconds timeout) {
  std::unique_lock lock(mutex_);
  flushed_.wait_for(lock, timeout, [this] { return queued_ == 0 || stopping_; });
  if (queued_ == 0) return {};
  return base::error(stopping_ ? ErrorCode::closed : ErrorCode::timeout, queued_,
                     " saved steps have not been sent after ", timeout.count(), " ms");
}

std::optional<SendFailure> Sender::take_failure() {
  const std::lock_guard lock(mutex_);
  if (failures_.empty()) return std::nullopt;
  SendFailure failure = std::move(failures_.front());
  failures_.pop_front();
  return failure;
}

void Sender::count(ChunkCounters& counters) const {
  const std::lock_guard lock(mutex_);
  counters.sent = counters_.sent;
  counters.recomputed = counters_.recomputed;
  counters.discarded = counters_.discarded;
  counters.send_errors = counters_.send_errors;
  counters.queued = queued_;
  for (const auto& wait : waits_) {
    if (wait.second.second == WaitFor::space) ++counters.waiting_for_space;
  }
}

// What the connector tells of a key of ours: its receiver wants no more, or is lost.
void Sender::receiver_gave_up(std::string_view key, const Error& reason) {
  const auto parsed = parse_chunk_key(key, edge_.from, edge_.to);
  if (!parsed) return;
  const Turn turn(*this);
  if (stopping_) return;
  Lane& lane = lane_of(parsed->first);
  if (lane.hearing_out) return;
  if (!lane.given_up) lane.given_up.emplace(GivenUp{parsed->second, reason});
  interrupt(lane);
}

void Sender::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return worker_is_due(); });
    if (stopping_) return;
    if (std::exchange(raise_due_, false)) {
      lock.unlock();
      ready_signal_->raise();
      lock.lock();
    } else {
      serve_first(lock);
    }
  }
}

// --- All that follows: with mutex_ held.

bool Sender::worker_is_due() const {
  return raise_due_ || (!serving_ && (stopping_ || first_ready_ != nullptr));
}

// Not what takes long: whoever saves has other things to do.
bool Sender::can_be_served_here(const Lane& lane, const SavedStep& step) const {
  return !serving_ && first_ready_ == &lane && lane.next_ready == nullptr && !step.owner &&
         step.copy.size() <= kServedHere;
}

// The first lane that has something. Gives the lock back meanwhile.
void Sender::serve_first(std::unique_lock<std::mutex>& lock) {
  serving_ = true;
  Lane& lane = *first_ready_;
  first_ready_ = lane.next_ready;
  lane.state = State::running;
  const std::optional<GivenUp> given_up = std::exchange(lane.given_up, std::nullopt);
  std::optional<Result<PoolBuffer>> granted = std::exchange(lane.granted, std::nullopt);
  const std::optional<Status> heard_out = std::exchange(lane.heard_out, std::nullopt);
  const SavedStep* const step = lane.steps.front();
  lock.unlock();
  if (given_up) give_up(lane, *given_up);
  const bool done = step != nullptr && serve(lane, *step, std::move(granted), heard_out);
  lock.lock();
  leave(lane, done);
  serving_ = false;
}

Sender::Lane* Sender::find(std::string_view external_id) {
  const auto place = lanes_.find(external_id);
  return place == lanes_.end() ? nullptr : place->second.get();
}

Sender::Lane& Sender::lane_of(std::string_view external_id) {
  if (Lane* const known = find(external_id)) return *known;
  auto lane = std::make_unique<Lane>();
  lane->external_id = external_id;
  return *lanes_.emplace(lane->external_id, std::move(lane)).first->second;
}

SavedStep* Sender::take_step() {
  SavedStep* step = spare_.front();
  if (step != nullptr) {
    spare_.pop();
    return step;
  }
  steps_.push_back(std::make_unique<SavedStep>());
  return steps_.back().get();
}

void Sender::recycle(SavedStep* step) {
  step->owner.reset();
  step->copy.shrink();
  spare_.push(step);
}

void Sender::enqueue(Lane& lane, SavedStep* step) {
  lane.steps.push(step);
  ++queued_;
  if (lane.state == State::idle) make_ready(lane);
}

void Sender::drop_steps(Lane& lane) {
  // The step that is being served stays: it is the worker's.
  SavedStep* const served = lane.state == State::running ? lane.steps.front() : nullptr;
  if (served != nullptr) lane.steps.pop();
  while (SavedStep* const step = lane.steps.front()) {
    lane.steps.pop();
    --queued_;
    if (step->kind == SavedStep::Kind::step) ++counters_.discarded;
    recycle(step);
  }
  if (served != nullptr) lane.steps.push(served);
}

void Sender::make_ready(Lane& lane) {
  lane.state = State::queued;
  lane.next_ready = nullptr;
  (first_ready_ == nullptr ? first_ready_ : last_ready_->next_ready) = &lane;
  last_ready_ = &lane;
}

std::uint64_t Sender::start_wait(Lane& lane, WaitFor what) {
  lane.ticket = ++last_ticket_;
  lane.state = State::waiting;
  waits_.emplace(lane.ticket, std::pair(&lane, what));
  return lane.ticket;
}

// The lane that still waited with this ticket, which may go on.
Sender::Lane* Sender::end_wait(std::uint64_t ticket) {
  const auto wait = waits_.find(ticket);
  if (wait == waits_.end() || stopping_) return nullptr;
  Lane* const lane = wait->second.first;
  waits_.erase(wait);
  make_ready(*lane);
  return lane;
}

// Something has happened that a lane which waits must not wait for.
void Sender::interrupt(Lane& lane) {
  if (lane.state == State::waiting) {
    waits_.erase(lane.ticket);
    lane.hearing_out = false;
    make_ready(lane);
  } else if (lane.state == State::idle) {
    make_ready(lane);
  }
}

// The worker is done with the lane for now; `step_done`: with the first of its steps, too.
void Sender::leave(Lane& lane, bool step_done) {
  if (step_done) {
    SavedStep* const step = lane.steps.front();
    lane.steps.pop();
    recycle(step);
    if (--queued_ == 0) flushed_.notify_all();
  }
  if (lane.state != State::running) return;  // it waits, or does no more
  if (lane.steps.front() != nullptr || lane.given_up) return make_ready(lane);
  lane.state = State::idle;
  if (!lane.open && !lane.work.begun) lanes_.erase(lanes_.find(lane.external_id));
}

}  // namespace stagewire::chunk
