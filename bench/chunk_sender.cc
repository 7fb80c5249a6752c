#include "chunk_sender.hpp"

#include <chrono>
#include <thread>
#include <unordered_map>

#include "die.hpp"
#include "yardsticks.hpp"

namespace stagewire::bench {
namespace {

constexpr Milliseconds kPatience{30'000};
constexpr std::uint32_t kSavedAhead = 64;  // chunks, of all streams together
constexpr std::chrono::microseconds kStep{1'000'000 / ChunkSender::kStepsPerSecond};
// A receiver is given this long to fall asleep before the next chunk, so that the wake is measured.
constexpr double kFallAsleepUs = 50;

/// Sends what is saved as it is.
class AsMade final : public ChunkProcessor {
 public:
  Result<Value*> process(const ChunkRequest& request, const Value& output, bool) override {
    if (output.is_none()) return static_cast<Value*>(nullptr);
    Value& payload = payloads_[std::string(request.external_id)];
    payload = output;
    return &payload;
  }
  void end_segment(std::string_view) override {}
  void forget(std::string_view external_id) override { payloads_.erase(std::string(external_id)); }

 private:
  std::unordered_map<std::string, Value> payloads_;  ///< by external id
};

std::unique_ptr<ChunkProcessor> make_processor(bool as_made) {
  if (as_made) return std::make_unique<AsMade>();
  return checked(make_chunk_processor("qwen3_omni.thinker2talker_async_chunk", {}));
}

}  // namespace

ChunkSender::ChunkSender(const ChunkSenderOptions& options) {
  ConnectorConfig config;
  config.stage_id = 0;
  config.zmq_port = 0;
  config.memory_pool_size = options.pool_size;
  config.lease_share = 1;
  config.wait = options.wait;
  connector_ = checked(Connector::create(config));
  adapter_ = checked(ChunkTransferAdapter::create(*connector_, make_processor(options.as_made), {}));
  Request request;
  request.kind = Request::chunks_open;
  request.query_pull = options.query_pull;
  request.pool_size = options.pool_size;
  request.wait = static_cast<std::uint32_t>(options.wait);
  request.port = connector_->connection_info().zmq_port;
  partner_.ask(request);
  partner_pool_free_ = static_cast<std::uint64_t>(partner_.answer().at(0));
}

void ChunkSender::load(std::uint32_t streams) {
  ++run_;
  ids_.clear();
  for (std::uint32_t stream = 0; stream < streams; ++stream) ids_.push_back(request_id(run_, stream));
  row_counts_.assign(streams, 0);
  Request request;
  request.kind = Request::chunks_load;
  request.run = run_;
  request.streams = streams;
  partner_.ask(request);
  partner_.answer();
}

// A prompt of one token: the first chunk has its row and the next one.
void ChunkSender::begin(std::uint32_t streams) {
  load(streams);
  partner_.ask(receive_request(1));
  for (std::uint32_t stream = 0; stream < streams; ++stream) {
    save_row(stream);
    save_row(stream);
  }
  flush();
  partner_.answer();
}

Request ChunkSender::receive_request(std::uint32_t count) const {
  Request request;
  request.kind = Request::chunks_receive;
  request.count = count;
  return request;
}

double ChunkSender::send(std::uint32_t count) {
  partner_.ask(receive_request(count));
  const double start = now_us();
  std::uint32_t saved = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    for (std::uint32_t stream = 0; stream < ids_.size(); ++stream) {
      save_row(stream);
      if (++saved % kSavedAhead == 0) flush();
    }
  }
  flush();
  const double end = partner_.answer().at(0);
  return static_cast<double>(saved) / (end - start) * 1e6;
}

std::vector<double> ChunkSender::send_paced(std::uint32_t steps) {
  partner_.ask(receive_request(steps));
  auto next = std::chrono::steady_clock::now();
  for (std::uint32_t i = 0; i < steps; ++i) {
    for (std::uint32_t stream = 0; stream < ids_.size(); ++stream) save_row(stream);
    check_events();
    next += kStep;
    std::this_thread::sleep_until(next);
  }
  std::vector<double> times = partner_.answer();
  times.erase(times.begin());
  return times;
}

std::vector<double> ChunkSender::send_one_by_one(std::uint32_t count) {
  Request request = receive_request(count);
  request.one_by_one = true;
  partner_.ask(request);
  for (std::uint32_t i = 0; i < count; ++i) {
    for (const double start = now_us(); now_us() - start < kFallAsleepUs;) {
    }
    save_row(0);
    partner_.answer();
  }
  check_events();
  std::vector<double> times = partner_.answer();
  times.erase(times.begin());
  return times;
}

void ChunkSender::end() {
  Request request;
  request.kind = Request::chunks_end;
  partner_.ask(request);
  for (std::uint32_t stream = 0; stream < ids_.size(); ++stream) save(stream, Value(), true);
  flush();
  partner_pool_free_ = static_cast<std::uint64_t>(partner_.answer().at(0));
  check(connector_->drain(kPatience));
  for (const std::string& id : ids_) adapter_->finish(id, id);
}

double ChunkSender::send_whole(const Value& payload, ModelRows& rows) {
  load(1);
  partner_.ask(receive_request(1));
  // The bench outlives what is saved.
  const std::shared_ptr<const void> owner(&rows, [](const void*) {});
  row_counts_[0] = static_cast<std::uint64_t>(rows.view().shape[0]);
  rows.stamp(now_us());
  save(0, payload, false, owner);
  const double time = partner_.answer().at(1);
  end();
  return time;
}

void ChunkSender::save_row(std::uint32_t stream) {
  const std::uint64_t number = row_counts_[stream]++;
  row_.number_from(number);
  row_.stamp(now_us());
  save(stream, number == 0 ? first_output_ : output_, false);
}

void ChunkSender::save(std::uint32_t stream, const Value& output, bool finished,
                       std::shared_ptr<const void> owner) {
  const std::uint64_t rows = row_counts_[stream];
  if (tokens_.size() < rows) tokens_.resize(rows, 151'643);
  ChunkRequest request;
  request.internal_id = ids_[stream];
  request.external_id = ids_[stream];
  request.prompt_ids = std::span(tokens_).first(1);
  request.output_ids = std::span(tokens_).subspan(1, rows - 1);
  StepState state;
  state.finished = finished;
  state.confirmed_tokens = static_cast<std::int64_t>(rows);
  check(adapter_->save(request, output, state, std::move(owner)));
}

void ChunkSender::flush() {
  check(adapter_->flush(kPatience));
  check_events();
}

void ChunkSender::check_events() {
  adapter_->take(events_);
  if (!events_.empty()) die("the sender: " + events_.front().chunk.error().to_string());
}

}  // namespace stagewire::bench
