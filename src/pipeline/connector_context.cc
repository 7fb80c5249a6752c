#include "pipeline/connector_context.hpp"

#include <utility>

#include "base/check.hpp"
#include "base/text.hpp"

namespace stagewire::pipeline {
namespace {

/// How many chunks a stage asks for beforehand: they come as soon as they are put. Eight hide the way there
/// and back and are little to keep.
constexpr std::uint64_t kAskAhead = 8;

}  // namespace

std::int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(base::steady_clock().now().time_since_epoch())
      .count();
}

ConnectorContext::ConnectorContext(const Assignment& assignment, Connector& connector, StageControl& control)
    : assignment_(assignment), connector_(connector), control_(control) {}

std::string ConnectorContext::key(int from_stage, std::uint64_t chunk) const {
  return base::text(assignment_.request_id, "_", from_stage, "_", chunk);
}

/// The connector answers a chunk that was asked for and never comes when it is closed.
Status ConnectorContext::ask_ahead() {
  for (; asked_ < received_ + kAskAhead; ++asked_) {
    if (Status status =
            connector_.watch(std::to_string(assignment_.upstream), std::to_string(assignment_.stage_id),
                             key(assignment_.upstream, asked_), [](const Status&) {});
        !status.ok()) {
      return status;
    }
  }
  return {};
}

Result<Chunk> ConnectorContext::receive() {
  STAGEWIRE_CHECK(assignment_.upstream >= 0, "the first stage receives nothing");
  const auto context = [this] {
    return base::text("chunk ", received_, " from stage ", assignment_.upstream);
  };
  if (Status status = ask_ahead(); !status.ok()) return status.error().with_context(context());
  GetOptions options;
  options.timeout = timeout();
  auto delivery = connector_.get(std::to_string(assignment_.upstream), std::to_string(assignment_.stage_id),
                                 key(assignment_.upstream, received_), options);
  if (!delivery.ok()) return delivery.error().with_context(context());
  const auto kept = std::make_shared<Delivery>(std::move(*delivery));
  auto payload = kept->object();
  if (!payload.ok()) return payload.error().with_context(context());
  last_received_us_ = now_us();
  received_bytes_ += kept->size();
  ++received_;
  return Chunk{std::move(*payload), kept};
}

Status ConnectorContext::send(const Value& payload) {
  STAGEWIRE_CHECK(assignment_.downstream >= 0, "the last stage sends nothing");
  const auto context = [this] { return base::text("chunk ", sent_, " to stage ", assignment_.downstream); };
  // No further ahead of the next stage than it has asked: what lies around costs memory and comes late.
  if (Status status = connector_.drain(timeout()); !status.ok())
    return status.error().with_context(context());
  const auto put =
      connector_.put(std::to_string(assignment_.stage_id), std::to_string(assignment_.downstream),
                     key(assignment_.stage_id, sent_), payload, PutOptions{timeout()});
  if (!put.ok()) return put.error().with_context(context());
  ++sent_;
  return {};
}

Status ConnectorContext::pace(base::Duration since_first) {
  if (!assignment_.real_time) return {};
  if (!first_pace_) first_pace_ = base::steady_clock().now();
  return control_.wait_until(*first_pace_ +
                             std::chrono::duration_cast<base::Duration>(since_first / assignment_.speed));
}

void ConnectorContext::report_progress(double audio_seconds) {
  // A pipeline that is gone has stopped this stage, which then ends for that reason.
  static_cast<void>(control_.send(Progress{audio_seconds, now_us()}));
}

Done ConnectorContext::done() {
  Done done = received_by(connector_);
  done.last_chunk_at_us = last_received_us_;
  done.chunks = received_;
  done.bytes = received_bytes_;
  return done;
}

Done received_by(Connector& connector) {
  const Health health = connector.health();
  Done done;
  done.at_us = now_us();
  done.chunks = health.gets;
  done.bytes = health.bytes_got;
  done.eager = health.eager;
  done.lease = health.lease;
  done.read = health.read;
  done.write = health.write;
  done.route_reason = health.route_reason;
  done.latency_p50_us = health.latency_p50_us;
  done.latency_p90_us = health.latency_p90_us;
  done.latency_p99_us = health.latency_p99_us;
  return done;
}

}  // namespace stagewire::pipeline
