// Two stages of one process, each with a connector and an adapter, for tests.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "connector/connector_fixture.hpp"
#include "stagewire/chunk.hpp"

namespace stagewire::chunk {

using testing_support::ConnectorPair;
using testing_support::ms;
using testing_support::PairOptions;
using testing_support::pattern;

/// Sends a step's output as it is.
class PlainProcessor final : public ChunkProcessor {
 public:
  struct Log {
    std::vector<std::string> ended_segments, forgotten;
  };
  explicit PlainProcessor(std::shared_ptr<Log> log = nullptr) : log_(std::move(log)) {}

  Result<Value*> process(const ChunkRequest& request, const Value& output, bool) override {
    if (output.is_none()) return static_cast<Value*>(nullptr);
    Value& payload = payloads_[std::string(request.external_id)];
    payload = output;
    return &payload;
  }
  void end_segment(std::string_view id) override {
    if (log_) log_->ended_segments.emplace_back(id);
  }
  void forget(std::string_view id) override {
    if (log_) log_->forgotten.emplace_back(id);
  }

 private:
  const std::shared_ptr<Log> log_;
  std::map<std::string, Value> payloads_;
};

/// Waits for what another thread does; false when it has not done it for very long.
template <typename Condition>
bool eventually(Condition condition) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    std::this_thread::yield();
  }
  return true;
}

/// {"embed": {"decode": bytes}}, as a uint8 tensor. Views `bytes`.
inline Value output_of(std::span<const std::byte> bytes) {
  TensorView row;
  row.shape = {std::ssize(bytes)};
  row.data = bytes.data();
  return Value(Value::Map{{Value("embed"), Value(Value::Map{{Value("decode"), Value(std::move(row))}})}});
}

/// What output_of() was made of.
inline std::vector<std::byte> bytes_of(const Chunk& chunk) {
  const Value* embed = chunk.payload.find("embed");
  const Value* decode = embed == nullptr ? nullptr : embed->find("decode");
  const auto* row = decode == nullptr ? nullptr : decode->get_if<TensorView>();
  if (row == nullptr) return {};
  return {row->data, row->data + row->shape.at(0)};
}

inline ChunkRequest request_of(std::string_view external_id, bool resumable = false) {
  ChunkRequest request;
  request.internal_id = external_id;
  request.external_id = external_id;
  request.resumable = resumable;
  return request;
}

struct StagePair : ConnectorPair {
  explicit StagePair(const PairOptions& pair_options = {}, ChunkAdapterOptions adapter_options = {},
                     std::unique_ptr<ChunkProcessor> processor = std::make_unique<PlainProcessor>())
      : ConnectorPair(pair_options) {
    adapter_options.stage_id = 0;
    auto made_source = ChunkTransferAdapter::create(*sender, std::move(processor), adapter_options);
    EXPECT_TRUE(made_source.ok());
    source = std::move(*made_source);
    adapter_options.stage_id = 1;
    auto made_target = ChunkTransferAdapter::create(*receiver, nullptr, adapter_options);
    EXPECT_TRUE(made_target.ok());
    target = std::move(*made_target);
  }

  Status save(std::string_view id, std::span<const std::byte> bytes, const StepState& state = {}) const {
    return source->save(request_of(id), output_of(bytes), state);
  }
  Status save_end(std::string_view id) const {
    return source->save(request_of(id), Value(),
                        {.finished = true, .segment_finished = false, .confirmed_tokens = 0});
  }
  /// The target's internal id differs from the shared one.
  static std::string internal(std::string_view id) { return "target-" + std::string(id); }
  Status load(std::string_view id) const { return target->load(internal(id), id); }

  /// The next event of `adapter`, which must come.
  ChunkEvent next(ChunkTransferAdapter& adapter) {
    std::vector<ChunkEvent>& events = adapter_events[&adapter];
    while (events.empty()) {
      if (!adapter.wait(ms(20'000))) {
        ADD_FAILURE() << "nothing has come";
        return {"", false, Error(ErrorCode::timeout, "nothing has come")};
      }
      adapter.take(events);
    }
    ChunkEvent event = std::move(events.front());
    events.erase(events.begin());
    return event;
  }
  ChunkEvent next_received() { return next(*target); }
  ChunkEvent next_of_source() { return next(*source); }

  std::unique_ptr<ChunkTransferAdapter> source, target;
  std::map<ChunkTransferAdapter*, std::vector<ChunkEvent>> adapter_events;
};

}  // namespace stagewire::chunk
