// A scheduler with a step loop over the chunk path: it preempts, aborts and uses ids again.
#include "stagewire/chunk_queues.hpp"

#include <gtest/gtest.h>

#include <list>
#include <random>

#include "chunk/apply_chunk.hpp"
#include "chunk/chunk_fixture.hpp"
#include "support/test_seed.hpp"

namespace stagewire::chunk {
namespace {

/// Runs what is in its queues, a few requests a step.
struct Scheduler {
  explicit Scheduler(ChunkTransferAdapter& adapter, std::size_t max_running = 0)
      : adapter_ref(adapter), queues(adapter, max_running) {}

  StageRequest& add(const std::string& external_id) {
    StageRequest& request = requests.emplace_back();
    request.internal_id = "here-" + external_id;
    request.external_id = external_id;
    waiting.push_back(&request);
    return request;
  }
  /// One step: `use` sees each request that has new input. Finished ones leave.
  template <typename Use>
  void step(Use use) {
    queues.process_pending_chunks(waiting, running, failures);
    while (!waiting.empty()) {
      waiting.front()->status = RequestStatus::running;
      running.push_back(waiting.front());
      waiting.pop_front();
    }
    std::vector<StageRequest*> scheduled(running.begin(), running.end());
    for (StageRequest* const request : scheduled) {
      if (request->chunk_ready) use(*request);
    }
    queues.restore_queues(waiting, running);
    queues.postprocess(scheduled);
  }
  void remove(StageRequest& request) {
    std::erase(waiting, &request);
    std::erase(running, &request);
    requests.remove_if([&](const StageRequest& other) { return &other == &request; });
  }

  ChunkTransferAdapter& adapter_ref;
  ChunkQueues queues;
  ChunkQueues::Queue waiting, running;
  std::vector<ChunkQueues::Failure> failures;
  std::list<StageRequest> requests;
};

std::vector<std::byte> input_bytes(const StageRequest& request) {
  const auto* row = request.input.value().find("embed")->find("decode")->get_if<TensorView>();
  return {row->data, row->data + row->shape.at(0)};
}

TEST(ChunkQueues, a_request_is_out_of_the_queues_until_its_chunk_is_there) {
  StagePair pair;
  Scheduler scheduler(*pair.target);
  StageRequest& request = scheduler.add("r");
  scheduler.queues.process_pending_chunks(scheduler.waiting, scheduler.running, scheduler.failures);
  EXPECT_TRUE(scheduler.waiting.empty());
  EXPECT_EQ(request.status, RequestStatus::waiting_for_chunk);
  scheduler.queues.restore_queues(scheduler.waiting, scheduler.running);
  ASSERT_EQ(scheduler.waiting.size(), 1U);
  ASSERT_TRUE(pair.save("r", pattern(64, 1)).ok());
  ASSERT_TRUE(pair.target->wait(ms(20'000)));
  scheduler.queues.process_pending_chunks(scheduler.waiting, scheduler.running, scheduler.failures);
  ASSERT_EQ(scheduler.waiting.size(), 1U);
  EXPECT_EQ(request.status, RequestStatus::waiting);
  EXPECT_EQ(input_bytes(request), pattern(64, 1));
  StageRequest* const scheduled[] = {&request};
  scheduler.queues.postprocess(scheduled);
  EXPECT_TRUE(request.input.value().is_none());
  EXPECT_FALSE(request.chunk_ready);
  scheduler.queues.finish(request);
}

TEST(ChunkQueues, what_running_has_too_many_of_is_preempted) {
  StagePair pair;
  Scheduler scheduler(*pair.target, 2);
  for (const char* const id : {"a", "b", "c"}) {
    StageRequest& request = scheduler.add(id);
    request.status = RequestStatus::running;
    request.chunk_ready = true;
  }
  scheduler.running.swap(scheduler.waiting);
  scheduler.queues.process_pending_chunks(scheduler.waiting, scheduler.running, scheduler.failures);
  ASSERT_EQ(scheduler.running.size(), 2U);
  ASSERT_EQ(scheduler.waiting.size(), 1U);
  EXPECT_EQ(scheduler.waiting[0]->external_id, "c");
  EXPECT_EQ(scheduler.waiting[0]->status, RequestStatus::preempted);
}

TEST(ChunkQueues, the_first_stage_loads_nothing) {
  StagePair pair;
  Scheduler scheduler(*pair.source);
  scheduler.add("r");
  scheduler.queues.process_pending_chunks(scheduler.waiting, scheduler.running, scheduler.failures);
  EXPECT_EQ(scheduler.waiting.size(), 1U);
  EXPECT_TRUE(scheduler.failures.empty());
}

TEST(ChunkQueues, a_segment_ends_until_the_request_is_resumed) {
  StagePair pair;
  Scheduler scheduler(*pair.target);
  StageRequest& request = scheduler.add("r");
  request.resumable = true;
  int used = 0;
  const auto count = [&](StageRequest&) { ++used; };
  StepState segment_end;
  segment_end.segment_finished = true;
  for (int segment = 1; segment <= 2; ++segment) {
    ASSERT_TRUE(pair.source->save(request_of("r", true), output_of(pattern(8, 1)), segment_end).ok());
    ASSERT_TRUE(eventually([&] {
      scheduler.step(count);
      return used == segment;
    }));
    EXPECT_TRUE(request.segment_received);
    scheduler.step(count);
    EXPECT_EQ(pair.target->counters().waiting, 0U) << "nothing is asked for between segments";
    scheduler.queues.resume(request);
  }
  ASSERT_TRUE(pair.save_end("r").ok());
  ASSERT_TRUE(eventually([&] {
    scheduler.step(count);
    return request.received;
  }));
  EXPECT_FALSE(request.resumable);
  EXPECT_TRUE(scheduler.failures.empty());
}

TEST(ChunkQueues, errors_of_both_halves_are_failures) {
  StagePair pair;
  Scheduler target(*pair.target);
  Scheduler source(*pair.source);
  target.add("r");
  target.step([](StageRequest&) {});
  pair.source->abort("r", "r", "gone");
  ASSERT_TRUE(eventually([&] {
    target.step([](StageRequest&) {});
    return !target.failures.empty();
  }));
  EXPECT_EQ(target.failures[0].internal_id, "here-r");
  EXPECT_EQ(target.failures[0].error.code(), ErrorCode::cancelled);
  target.queues.abort(target.requests.front(), "its chunks do not come");
  EXPECT_EQ(target.requests.front().status, RequestStatus::waiting);
}

// Requests come and go; some are aborted by either stage; ids are used again; the sending scheduler preempts
// and computes again. What is not aborted arrives whole.
TEST(ChunkQueues, R07_a_scheduler_that_preempts_aborts_and_reuses_ids_loses_and_mixes_nothing) {
  std::mt19937_64 random(test::test_seed());
  StagePair pair({.pool_size = 4 << 20});
  Scheduler target(*pair.target, 3);
  std::vector<ChunkEvent> source_events;
  for (std::uint64_t round = 0; round < 25; ++round) {
    std::map<std::string, std::uint64_t> chunks, used;
    std::map<std::string, bool> aborted;
    for (const std::string id : {"a", "b", "c", "d", "e"}) {
      chunks[id] = random() % 8;
      aborted[id] = random() % 4 == 0;
      target.add(id);
    }
    const auto bytes_for = [&](const std::string& id, std::uint64_t chunk) {
      return pattern(100 + 40'000 * (chunk % 2),
                     round * 1000 + chunk * 10 + static_cast<unsigned char>(id[0]));
    };
    for (const auto& [id, count] : chunks) {
      for (std::uint64_t chunk = 0; chunk < count; ++chunk) {
        StepState state;
        state.confirmed_tokens = static_cast<std::int64_t>(chunk) + 1;
        ASSERT_TRUE(pair.save(id, bytes_for(id, chunk), state).ok());
        if (random() % 3 > 0) continue;
        state.confirmed_tokens = 0;  // preempted: this step has been sent before
        ASSERT_TRUE(pair.save(id, bytes_for(id, chunk), state).ok());
      }
      if (!aborted[id]) {
        ASSERT_TRUE(pair.save_end(id).ok());
      }
    }
    const auto use = [&](StageRequest& request) {
      if (request.received) return;
      EXPECT_EQ(input_bytes(request), bytes_for(request.external_id, used[request.external_id]++));
    };
    ASSERT_TRUE(eventually([&] {
      target.step(use);
      bool all = true;
      for (StageRequest& request : target.requests)
        all = all && (request.received || aborted[request.external_id]);
      return all;
    }));
    EXPECT_TRUE(target.failures.empty());
    std::vector<StageRequest*> ended;
    for (StageRequest& request : target.requests) ended.push_back(&request);
    for (StageRequest* const request : ended) {
      const std::string id = request->external_id;
      if (aborted[id]) {
        if (random() % 2 == 0) pair.source->abort(id, id, "aborted");
        target.queues.abort(*request, "aborted");
        pair.source->abort(id, id, "aborted");
      } else {
        EXPECT_EQ(used[id], chunks[id]) << id << " in round " << round;
        target.queues.finish(*request);
      }
      target.remove(*request);
    }
    ASSERT_TRUE(pair.source->flush(ms(20'000)).ok());
    pair.source->take(source_events);
  }
  pair.expect_all_returned();
}

// --- What a chunk does to its request

Chunk chunk_with(Value payload, bool segment_finished = false) {
  Chunk chunk;
  chunk.segment_finished = segment_finished;
  chunk.payload = std::move(payload);
  return chunk;
}

TensorView codes_of(const std::vector<std::int64_t>& codes, std::vector<std::int64_t> shape) {
  TensorView tensor;
  tensor.dtype = DType::int64;
  tensor.shape = std::move(shape);
  tensor.data = reinterpret_cast<const std::byte*>(codes.data());
  return tensor;
}

Value codes_payload(Value audio, std::int64_t left_context) {
  return Value(
      Value::Map{{Value("codes"), Value(Value::Map{{Value("audio"), std::move(audio)}})},
                 {Value("meta"), Value(Value::Map{{Value("finished"), Value(true)},
                                                  {Value("left_context_size"), Value(left_context)}})}});
}

TEST(ApplyChunk, codes_become_the_prompt_and_the_rest_is_merged_one_level_deep) {
  StageRequest request;
  request.computed_tokens = 7;
  std::vector<std::int64_t> codes{5, 6, 7};
  ASSERT_TRUE(
      apply_chunk(request, chunk_with(codes_payload(codes_of(codes, {3}), 25)), ChunkMode::generation).ok());
  EXPECT_EQ(request.prompt_ids, (std::vector<std::int64_t>{5, 6, 7}));
  EXPECT_EQ(request.computed_tokens, 0);
  codes.assign(3, 0);  // the chunk's memory is gone
  const Value second(Value::Map{{Value("meta"), Value(Value::Map{{Value("right_holdback_size"), Value(4)}})},
                                {Value("speaker"), Value("ethan")}});
  ASSERT_TRUE(apply_chunk(request, chunk_with(second), ChunkMode::generation).ok());
  EXPECT_TRUE(request.prompt_ids.empty());
  const Value* meta = request.input.value().find("meta");
  ASSERT_NE(meta, nullptr);
  EXPECT_EQ(*meta->find("left_context_size")->get_if<std::int64_t>(), 25);
  EXPECT_EQ(*meta->find("right_holdback_size")->get_if<std::int64_t>(), 4);
  EXPECT_EQ(meta->find("finished"), nullptr);
  EXPECT_EQ(*request.input.value().find("speaker")->get_if<std::string_view>(), "ethan");
}

TEST(ApplyChunk, codes_of_every_form) {
  const std::vector<std::int64_t> codes{1, 2, 3, 4};
  StageRequest request;
  const auto prompt_of = [&](Value audio, bool segment_finished = false) {
    EXPECT_TRUE(apply_chunk(request, chunk_with(codes_payload(std::move(audio), 0), segment_finished),
                            ChunkMode::generation)
                    .ok());
    return request.prompt_ids;
  };
  using Ids = std::vector<std::int64_t>;
  EXPECT_EQ(prompt_of(codes_of(codes, {2, 2})), (Ids{0})) << "rows stay a tensor";
  EXPECT_NE(request.input.value().find("codes")->find("audio")->get_if<TensorView>(), nullptr);
  EXPECT_EQ(prompt_of(codes_of(codes, {0, 2})), Ids{});
  EXPECT_EQ(prompt_of(Value()), Ids{});
  EXPECT_EQ(prompt_of(Value(), true), (Ids{0})) << "the end of a segment has to pass through";
  EXPECT_EQ(prompt_of(Value(Value::List{Value(8), Value(9)})), (Ids{8, 9}));
  EXPECT_EQ(
      apply_chunk(request, chunk_with(codes_payload(Value("x"), 0)), ChunkMode::generation).error().code(),
      ErrorCode::corrupt);
}

TEST(ApplyChunk, a_new_segment_of_an_autoregressive_stage_gets_a_prompt_of_its_size) {
  StageRequest request;
  request.resumable = true;
  request.prompt_ids = {0, 0};
  request.computed_tokens = 2;
  const std::vector<std::int64_t> rows(10);
  const Value payload(
      Value::Map{{Value("embed"), Value(Value::Map{{Value("prefill"), Value(codes_of(rows, {5, 2}))}})}});
  ASSERT_TRUE(apply_chunk(request, chunk_with(payload), ChunkMode::ar).ok());
  EXPECT_EQ(request.prompt_ids.size(), 2U) << "the first chunk fits the prompt that was submitted";
  Chunk later = chunk_with(payload);
  later.index = 3;
  ASSERT_TRUE(apply_chunk(request, std::move(later), ChunkMode::ar).ok());
  EXPECT_EQ(request.prompt_ids, std::vector<std::int64_t>(5, 0));
  EXPECT_EQ(request.computed_tokens, 0);
}

}  // namespace
}  // namespace stagewire::chunk
