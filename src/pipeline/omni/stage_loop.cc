#include "pipeline/omni/stage_loop.hpp"

#include <algorithm>
#include <tuple>

#include "base/text.hpp"
#include "pipeline/connector_context.hpp"

namespace stagewire::pipeline::omni {
namespace {

/// Saved steps that have not been sent: with more, the next ones are put off. A step holds its rows.
constexpr std::uint64_t kMostQueued = 512;
constexpr Milliseconds kLetQueueShrink{5};
/// Steps between two looks at what has come.
constexpr int kStepsAtOnce = 64;

base::Duration beat_of(const Assignment& assignment) {
  return std::min<base::Duration>(std::chrono::milliseconds(100),
                                  base::Duration(Milliseconds(assignment.timeout_ms)) / 4);
}

}  // namespace

StageLoop::StageLoop(Stage stage, const ReplayContext& context)
    : stage_(std::move(stage)),
      context_(context),
      beat_(beat_of(context.assignment)),
      step_log_(context.control, context.assignment.record_steps) {}

StageLoop::~StageLoop() {
  context_.control.on_order({});
}

Result<std::unique_ptr<StageLoop>> StageLoop::create(Stage stage, const ReplayContext& context) {
  auto loop = std::unique_ptr<StageLoop>(new StageLoop(std::move(stage), context));
  if (Status status = loop->open_adapter(); !status.ok()) return status.error();
  return loop;
}

Status StageLoop::open_adapter() {
  const Assignment& assignment = context_.assignment;
  auto processor = stage_.make_processor();
  if (!processor.ok()) return processor.error();
  ChunkAdapterOptions options;
  options.stage_id = assignment.stage_id;
  if (assignment.upstream >= 0) options.source_stage = assignment.upstream;
  if (assignment.downstream >= 0) options.target_stage = assignment.downstream;
  options.mode = stage_.role() == StageRole::code2wav ? ChunkMode::generation : ChunkMode::ar;
  options.active_stream_window = assignment.active_stream_window;
  options.space_timeout = Milliseconds(assignment.timeout_ms);
  options.chunk_timeout = Milliseconds(assignment.timeout_ms);
  options.on_ready = [this] { wake_up_.ring(); };
  auto adapter = ChunkTransferAdapter::create(context_.connector, std::move(*processor), options);
  if (!adapter.ok()) return adapter.error();
  adapter_ = std::move(*adapter);
  return {};
}

Status StageLoop::run() {
  context_.control.on_order([this] { wake_up_.ring(); });
  while (ended_ < stage_.request_count()) {
    // Events first: when a request is to be given up, its own failure says more than the order.
    take_events();
    if (Status status = take_orders(); !status.ok()) return status;
    note_held();
    run_due_steps();
    report_progress();
    wait();
  }
  next_beat_ = {};
  report_progress();
  Done done = received_by(context_.connector);
  done.most_held = most_held_;
  done.last_chunk_at_us = last_chunk_at_us_;
  if (Status status = context_.control.send(done); !status.ok()) return status;
  // The adapter stays until the next stage has everything.
  return context_.control.wait_for_finish();
}

Status StageLoop::take_orders() {
  const auto orders = context_.control.take_orders();
  if (!orders.ok()) return orders.error();
  for (const Order& order : *orders) {
    if (const auto* admitted = std::get_if<Admit>(&order)) admit(*admitted);
    if (const auto* given_up = std::get_if<GiveUp>(&order)) give_up(*given_up);
  }
  return {};
}

void StageLoop::admit(const Admit& admit) {
  const auto now = base::steady_clock().now();
  for (std::uint64_t number = admit.first; number < admit.first + admit.count; ++number) {
    StageRequest& request = running_[number];
    request = stage_.begin(number);
    request.started = now;
    by_internal_id_[request.internal_id] = number;
    // Downstream stages wait from the request's start on, as they do where the model runs.
    const Status loaded =
        request.far_end != nullptr ? adapter_->load(request.internal_id, request.external_id) : Status();
    if (!loaded.ok()) {
      fail(request, loaded.error());
    } else {
      queue_step(request);
    }
  }
}

void StageLoop::give_up(const GiveUp& order) {
  if (StageRequest* request = find(order.request)) {
    fail(*request, Error(ErrorCode::cancelled, order.reason));
    return;
  }
  // It has ended here already: what of it has not been taken is dropped.
  adapter_->abort(stage_.internal_id(order.request), stage_.external_id(order.request), order.reason);
}

void StageLoop::take_events() {
  adapter_->take(events_);
  for (const ChunkEvent& event : events_) take_event(event);
  events_.clear();  // gives the chunks' memory back
}

void StageLoop::take_event(const ChunkEvent& event) {
  const auto known = by_internal_id_.find(event.internal_id);
  StageRequest* request = known != by_internal_id_.end() ? find(known->second) : nullptr;
  if (request == nullptr) return;  // it has ended here
  if (!event.chunk.ok()) return fail(*request, event.chunk.error());
  if (Status status = take_chunk(*request, *event.chunk); !status.ok()) return fail(*request, status.error());
  queue_step(*request);
  end_if_through(*request);
}

Status StageLoop::take_chunk(StageRequest& request, const stagewire::Chunk& chunk) {
  last_chunk_at_us_ = now_us();
  const std::int64_t before = request.far_end->received();
  if (Status status = request.far_end->take(chunk.payload); !status.ok()) return status;
  if (stage_.role() == StageRole::code2wav) {
    const std::int64_t frames = request.far_end->received() - before;
    if (frames > 0 && request.first_at_us == 0) request.first_at_us = last_chunk_at_us_;
    frames_ += frames;
  }
  if (request.far_end->finished()) return {};
  return adapter_->load(request.internal_id, request.external_id);
}

void StageLoop::queue_step(StageRequest& request) {
  if (request.queued || !request.can_step()) return;
  base::TimePoint time = request.started;
  if (context_.assignment.real_time) {
    const std::chrono::duration<double, std::milli> at(request.steps[request.next_step].at_ms);
    time += std::chrono::duration_cast<base::Duration>(at / context_.assignment.speed);
  }
  due_.push({time, ++turns_, request.number});
  request.queued = true;
}

void StageLoop::run_due_steps() {
  const auto now = base::steady_clock().now();
  for (int i = 0; i < kStepsAtOnce && !due_.empty() && due_.top().time <= now; ++i) {
    if (adapter_->counters().queued > kMostQueued) return;
    StageRequest* request = find(due_.top().request);
    due_.pop();
    if (request == nullptr) continue;  // it failed meanwhile
    request->queued = false;
    if (Status status = run_step(*request); !status.ok()) {
      fail(*request, status.error());
      continue;
    }
    queue_step(*request);
    end_if_through(*request);
  }
}

Status StageLoop::run_step(StageRequest& request) {
  StepOutput output = stage_.make_step(request);
  const ChunkRequest about{request.internal_id,
                           request.external_id,
                           request.prompt_ids,
                           request.output_ids,
                           /*resumable=*/false,
                           "",
                           ""};
  const StepState state{request.has_made_all(), false, request.made};
  step_log_.add({request.number, now_us(), request.steps[request.next_step - 1].count, state.finished});
  return adapter_->save(about, output.value, state, std::move(output.memory));
}

void StageLoop::end_if_through(StageRequest& request) {
  if (!request.has_received_all() || !request.has_made_all()) return;
  adapter_->finish(request.internal_id, request.external_id);
  end(request, {request.number, true, ErrorCode::failed, "", request.first_at_us, now_us()});
}

void StageLoop::fail(StageRequest& request, const Error& error) {
  adapter_->abort(request.internal_id, request.external_id, error.message());
  end(request, {request.number, false, error.code(), error.message(), request.first_at_us, now_us()});
}

void StageLoop::end(const StageRequest& request, const RequestEnded& ended) {
  ++ended_;
  by_internal_id_.erase(request.internal_id);
  running_.erase(ended.request);
  // A pipeline that is gone has stopped this stage, which then ends for that reason.
  static_cast<void>(context_.control.send(ended));
}

void StageLoop::report_progress() {
  const auto now = base::steady_clock().now();
  if (now < next_beat_) return;
  next_beat_ = now + beat_;
  step_log_.flush();
  static_cast<void>(context_.control.send(Progress{stage_.audio_seconds(frames_), now_us()}));
}

void StageLoop::note_held() {
  if (context_.assignment.active_stream_window > 0)
    most_held_ = std::max(most_held_, adapter_->counters().held);
}

void StageLoop::wait() {
  if (ended_ == stage_.request_count()) return;
  base::TimePoint until = next_beat_;
  if (!due_.empty()) {
    if (due_.top().time <= base::steady_clock().now()) {
      // More is due than the adapter has sent; there is nothing to wait for when it has.
      if (adapter_->counters().queued > kMostQueued) static_cast<void>(adapter_->flush(kLetQueueShrink));
      return;
    }
    until = std::min(until, due_.top().time);
  }
  wake_up_.wait_until(until);
}

StageRequest* StageLoop::find(std::uint64_t number) {
  const auto found = running_.find(number);
  return found == running_.end() ? nullptr : &found->second;
}

}  // namespace stagewire::pipeline::omni
