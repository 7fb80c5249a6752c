// What crosses, and in which order, when nothing goes wrong.
#include <gtest/gtest.h>

#include "chunk/chunk_fixture.hpp"
#include "support/use_up_threads.hpp"

namespace stagewire::chunk {
namespace {

TEST(ChunkAdapter, carries_the_chunks_of_a_request_in_order_and_its_end) {
  StagePair pair;
  ASSERT_TRUE(pair.load("r").ok());
  for (std::uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(pair.save("r", pattern(4096, i)).ok());
  ASSERT_TRUE(pair.save_end("r").ok());
  for (std::int64_t i = 0; i <= 10; ++i) {
    const ChunkEvent event = pair.next_received();
    ASSERT_TRUE(event.chunk.ok()) << event.chunk.error().to_string();
    EXPECT_EQ(event.internal_id, "target-r");
    EXPECT_EQ(event.chunk->index, i);
    EXPECT_EQ(event.chunk->finished, i == 10);
    EXPECT_FALSE(event.chunk->segment_finished);
    if (i == 10) continue;
    EXPECT_EQ(bytes_of(*event.chunk), pattern(4096, static_cast<std::uint64_t>(i)));
    ASSERT_TRUE(pair.load("r").ok());
  }
  EXPECT_EQ(pair.load("r").error().code(), ErrorCode::closed);
  EXPECT_EQ(pair.target->counters().received, 11U);
  EXPECT_EQ(pair.source->counters().sent, 11U);
  pair.target->finish("target-r", "r");
  pair.expect_all_returned();
}

TEST(ChunkAdapter, keys_and_the_finish_marker_are_the_originals) {
  StagePair pair;
  ASSERT_TRUE(pair.save("chatcmpl-1", pattern(100, 1)).ok());
  ASSERT_TRUE(pair.save_end("chatcmpl-1").ok());
  auto first = pair.receiver->get("0", "1", "chatcmpl-1_0_0", {.timeout = ms(20'000), .metadata = {}});
  ASSERT_TRUE(first.ok()) << first.error().to_string();
  auto last = pair.receiver->get("0", "1", "chatcmpl-1_0_1", {.timeout = ms(20'000), .metadata = {}});
  ASSERT_TRUE(last.ok()) << last.error().to_string();
  EXPECT_EQ(last->size(), 114U);
  const auto payload = last->object();
  ASSERT_TRUE(payload.ok());
  ASSERT_EQ(payload->get_if<Value::Map>()->size(), 1U);
  const auto* finished = payload->find("meta")->find("finished")->get_if<TensorView>();
  ASSERT_NE(finished, nullptr);
  EXPECT_EQ(finished->dtype, DType::boolean);
  EXPECT_TRUE(finished->shape.empty());
  EXPECT_EQ(*finished->data, std::byte{1});
  EXPECT_EQ(*payload->find("meta")->find("is_segment_finished")->get_if<TensorView>()->data, std::byte{0});
}

TEST(ChunkAdapter, the_edges_stages_come_from_the_options) {
  ConnectorPair pair{PairOptions{}};
  ChunkAdapterOptions options;
  options.stage_id = 3;
  options.target_stage = 7;
  auto source = ChunkTransferAdapter::create(*pair.sender, std::make_unique<PlainProcessor>(), options);
  ASSERT_TRUE(source.ok());
  options = {};
  options.stage_id = 7;
  options.source_stage = 3;
  auto target = ChunkTransferAdapter::create(*pair.receiver, nullptr, options);
  ASSERT_TRUE(target.ok());
  ASSERT_TRUE((*source)->save(request_of("r"), output_of(pattern(10, 1)), {}).ok());
  ASSERT_TRUE((*target)->load("r", "r").ok());
  ASSERT_TRUE((*target)->wait(ms(20'000)));
  std::vector<ChunkEvent> events;
  (*target)->take(events);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_TRUE(events[0].chunk.ok());
  options.source_stage = 7;
  EXPECT_EQ(ChunkTransferAdapter::create(*pair.receiver, nullptr, options).error().code(),
            ErrorCode::invalid_argument);
}

TEST(ChunkAdapter, a_resumable_request_goes_on_after_its_segments) {
  const auto log = std::make_shared<PlainProcessor::Log>();
  StagePair pair({}, {}, std::make_unique<PlainProcessor>(log));
  const StepState segment_end{.finished = true, .segment_finished = true, .confirmed_tokens = 9};
  for (std::int64_t segment = 0; segment < 2; ++segment) {
    ASSERT_TRUE(pair.load("r").ok());
    ASSERT_TRUE(pair.source->save(request_of("r", true), output_of(pattern(10, 1)), segment_end).ok());
    const ChunkEvent event = pair.next_received();
    ASSERT_TRUE(event.chunk.ok()) << event.chunk.error().to_string();
    EXPECT_EQ(event.chunk->index, segment);
    EXPECT_TRUE(event.chunk->segment_finished);
    EXPECT_FALSE(event.chunk->finished) << "a resumable request does not finish";
  }
  ASSERT_TRUE(pair.load("r").ok());
  ASSERT_TRUE(pair.save_end("r").ok());
  EXPECT_TRUE(pair.next_received().chunk->finished);
  ASSERT_TRUE(pair.source->flush(ms(20'000)).ok());
  EXPECT_EQ(log->ended_segments, (std::vector<std::string>{"r", "r"}));
  EXPECT_EQ(log->forgotten, (std::vector<std::string>{"r"}));
}

TEST(ChunkAdapter, what_a_preempted_request_computes_again_is_not_sent_again) {
  StagePair pair;
  ASSERT_TRUE(pair.load("r").ok());
  for (const std::int64_t confirmed : {5, 6, 7, 2, 5, 6, 7, 8}) {
    StepState state;
    state.confirmed_tokens = confirmed;
    ASSERT_TRUE(pair.save("r", pattern(16, static_cast<std::uint64_t>(confirmed)), state).ok());
  }
  // Its end is told although it has not got back to where it was.
  ASSERT_TRUE(pair.save_end("r").ok());
  std::vector<std::uint64_t> got;
  while (true) {
    const ChunkEvent event = pair.next_received();
    ASSERT_TRUE(event.chunk.ok());
    if (event.chunk->finished) break;
    for (const std::uint64_t confirmed : {2U, 5U, 6U, 7U, 8U}) {
      if (bytes_of(*event.chunk) == pattern(16, confirmed)) got.push_back(confirmed);
    }
    ASSERT_TRUE(pair.load("r").ok());
  }
  EXPECT_EQ(got, (std::vector<std::uint64_t>{5, 6, 7, 7, 8})) << "equal or more goes on";
  EXPECT_EQ(pair.source->counters().recomputed, 4U);
}

TEST(ChunkAdapter, the_watermark_ends_with_its_segment) {
  StagePair pair;
  StepState state;
  state.confirmed_tokens = 100;
  state.segment_finished = true;
  ASSERT_TRUE(pair.save("r", pattern(16, 1), state).ok());
  state.confirmed_tokens = 3;
  ASSERT_TRUE(pair.save("r", pattern(16, 2), state).ok());
  ASSERT_TRUE(pair.source->flush(ms(20'000)).ok());
  EXPECT_EQ(pair.source->counters().sent, 2U);
}

/// Keeps what it was given.
class SpyProcessor final : public ChunkProcessor {
 public:
  struct Seen {
    std::vector<std::vector<std::int64_t>> prompts, outputs;
    std::vector<const std::byte*> data;
    std::string speaker;
  };
  explicit SpyProcessor(std::shared_ptr<Seen> seen) : seen_(std::move(seen)) {}
  Result<Value*> process(const ChunkRequest& request, const Value& output, bool) override {
    seen_->prompts.emplace_back(request.prompt_ids.begin(), request.prompt_ids.end());
    seen_->outputs.emplace_back(request.output_ids.begin(), request.output_ids.end());
    seen_->speaker = request.speaker;
    seen_->data.push_back(output.find("embed")->find("decode")->get_if<TensorView>()->data);
    return static_cast<Value*>(nullptr);
  }
  void end_segment(std::string_view) override {}
  void forget(std::string_view) override {}

 private:
  const std::shared_ptr<Seen> seen_;
};

/// Tells on which thread it was called.
class ThreadProcessor final : public ChunkProcessor {
 public:
  explicit ThreadProcessor(std::promise<std::thread::id>& thread) : thread_(thread) {}
  Result<Value*> process(const ChunkRequest&, const Value&, bool) override {
    thread_.set_value(std::this_thread::get_id());
    return static_cast<Value*>(nullptr);
  }
  void end_segment(std::string_view) override {}
  void forget(std::string_view) override {}

 private:
  std::promise<std::thread::id>& thread_;
};

TEST(ChunkAdapter, a_small_step_is_sent_by_the_thread_that_saves_it_and_a_large_one_is_not) {
  for (const std::size_t size : {std::size_t{100}, std::size_t{1} << 20}) {
    std::promise<std::thread::id> thread;
    StagePair pair({}, {}, std::make_unique<ThreadProcessor>(thread));
    ASSERT_TRUE(pair.save("r", pattern(size, 1)).ok());
    EXPECT_EQ(thread.get_future().get() == std::this_thread::get_id(), size == 100);
  }
}

TEST(ChunkAdapter, the_processor_sees_the_request_as_it_was_saved) {
  const auto seen = std::make_shared<SpyProcessor::Seen>();
  StagePair pair({}, {}, std::make_unique<SpyProcessor>(seen));
  std::vector<std::int64_t> prompt{1, 2, 3};
  std::vector<std::int64_t> output;
  ChunkRequest request = request_of("r");
  request.speaker = "ethan";
  const auto bytes = std::make_shared<std::vector<std::byte>>(pattern(32, 1));
  const auto save = [&](bool segment_finished, std::shared_ptr<const void> owner) {
    request.prompt_ids = prompt;
    request.output_ids = output;
    StepState state;
    state.segment_finished = segment_finished;
    ASSERT_TRUE(pair.source->save(request, output_of(*bytes), state, std::move(owner)).ok());
  };
  save(false, nullptr);
  output = {10};
  save(false, bytes);
  output = {10, 11};
  save(true, nullptr);
  prompt = {9, 8, 7, 6};
  output = {5};
  save(false, nullptr);
  ASSERT_TRUE(pair.source->flush(ms(20'000)).ok());
  using Lists = std::vector<std::vector<std::int64_t>>;
  EXPECT_EQ(seen->prompts, (Lists{{1, 2, 3}, {1, 2, 3}, {1, 2, 3}, {9, 8, 7, 6}}));
  EXPECT_EQ(seen->outputs, (Lists{{}, {10}, {10, 11}, {5}}));
  EXPECT_EQ(seen->speaker, "ethan");
  EXPECT_NE(seen->data[0], bytes->data()) << "without an owner it is copied";
  EXPECT_EQ(seen->data[1], bytes->data()) << "with one it is not";
  EXPECT_EQ(bytes.use_count(), 1) << "the owner was let go";
}

TEST(ChunkAdapter, bad_calls_say_what_is_wrong) {
  StagePair pair;
  EXPECT_EQ(pair.target->save(request_of("r"), Value(), {}).error().code(), ErrorCode::invalid_argument);
  EXPECT_EQ(pair.source->load("r", "r").error().code(), ErrorCode::invalid_argument);
  EXPECT_EQ(pair.source->save(request_of(""), Value(), {}).error().code(), ErrorCode::invalid_argument);
  EXPECT_EQ(pair.load(std::string(2000, 'x')).error().code(), ErrorCode::invalid_argument);
  ASSERT_TRUE(pair.target->load("a", "shared").ok());
  EXPECT_EQ(pair.target->load("a", "other").error().code(), ErrorCode::invalid_argument);
  TensorView broken;
  broken.shape = {-1};
  const Value output(Value::Map{{Value("x"), Value(broken)}});
  EXPECT_FALSE(pair.source->save(request_of("r"), output, {}).ok());
  EXPECT_FALSE(pair.target->wait(ms(0)));
}

TEST(ChunkAdapter, a_generation_stage_is_not_bothered_with_chunks_without_codes) {
  ChunkAdapterOptions options;
  options.mode = ChunkMode::generation;
  StagePair pair({}, options);
  ASSERT_TRUE(pair.load("r").ok());
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(pair.save("r", pattern(10, 1)).ok());
  StepState segment_end;
  segment_end.segment_finished = true;
  ASSERT_TRUE(pair.save("r", pattern(10, 1), segment_end).ok());
  const ChunkEvent event = pair.next_received();
  ASSERT_TRUE(event.chunk.ok());
  EXPECT_EQ(event.chunk->index, 5) << "their numbers are used up";
  EXPECT_TRUE(event.chunk->segment_finished);
  EXPECT_EQ(pair.target->counters().empty, 5U);
}

TEST(ChunkAdapter, the_window_admits_in_the_order_of_the_first_load) {
  ChunkAdapterOptions options;
  options.active_stream_window = 2;
  StagePair pair({}, options);
  for (const char* const id : {"a", "b", "c", "d"}) {
    ASSERT_TRUE(pair.load(id).ok());
    ASSERT_TRUE(pair.save(id, pattern(10, 1)).ok());
    ASSERT_TRUE(pair.save_end(id).ok());
  }
  ASSERT_TRUE(pair.source->flush(ms(20'000)).ok());
  EXPECT_EQ(pair.target->counters().held, 2U);
  std::map<std::string, int> chunks;
  std::vector<std::string> finished;
  while (finished.size() < 4) {
    ChunkEvent event = pair.next_received();
    ASSERT_TRUE(event.chunk.ok());
    const std::string id(event.internal_id.substr(7));
    if (chunks[id]++ == 0) {
      const bool admitted = id == "a" || id == "b" || (id == "c" && !finished.empty()) || finished.size() > 1;
      EXPECT_TRUE(admitted) << id << " after " << finished.size();
      ASSERT_TRUE(pair.load(id).ok());
    } else {
      EXPECT_TRUE(event.chunk->finished);
      finished.push_back(id);
    }
  }
  EXPECT_EQ(pair.target->counters().held, 0U);
}

TEST(ChunkAdapter, giving_up_a_request_makes_room_in_the_window) {
  ChunkAdapterOptions options;
  options.active_stream_window = 1;
  StagePair pair({}, options);
  for (const char* const id : {"a", "b", "c"}) ASSERT_TRUE(pair.load(id).ok());
  ASSERT_TRUE(pair.save("c", pattern(10, 1)).ok());
  pair.target->abort("target-b", "b", "while it is held");
  pair.target->abort("target-a", "a", "while it is active");
  const ChunkEvent event = pair.next_received();
  EXPECT_EQ(event.internal_id, "target-c");
  EXPECT_TRUE(event.chunk.ok());
}

[[noreturn]] void create_without_a_thread() {
  const ConnectorPair pair({});
  test::use_up_threads();
  test::exit_with(
      ChunkTransferAdapter::create(*pair.sender, std::make_unique<PlainProcessor>(), ChunkAdapterOptions{}));
}

TEST(ChunkAdapter, R24_without_a_thread_to_send_it_is_exhausted) {
  if (!test::kCanUseUpThreads) GTEST_SKIP() << "a sanitizer needs the address space itself";
  EXPECT_EXIT(create_without_a_thread(), ::testing::ExitedWithCode(3),
              "exhausted: cannot start the thread that sends the chunks of stage 0: .*ulimit -u");
}

}  // namespace
}  // namespace stagewire::chunk
