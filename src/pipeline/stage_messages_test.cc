#include "pipeline/stage_messages.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "pipeline/control_channel.hpp"

namespace stagewire::pipeline {
namespace {

using ::testing::HasSubstr;

template <typename T>
T round_trip(const T& message) {
  auto decoded = decode_message(encode_message(message));
  EXPECT_TRUE(decoded.ok()) << decoded.error().to_string();
  EXPECT_TRUE(std::holds_alternative<T>(*decoded));
  return std::get<T>(*decoded);
}

/// All fields; does not compile when ConnectorConfig gets another one, which then has to be sent, too.
auto fields_of(const ConnectorConfig& config) {
  const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q] = config;
  return std::make_tuple(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q);
}

auto fields_of(const ReplayOptions& options) {
  const auto& [a, b, c, d, e, f] = options;
  return std::make_tuple(a, b, c, d, e, f);
}

TEST(StageMessages, an_assignment_travels_with_every_field_of_the_connector) {
  Assignment sent;
  sent.pipeline = "speech";
  sent.position = 1;
  sent.stage_id = 11;
  sent.upstream = 10;
  sent.downstream = 12;
  sent.request_id = "serve-1";
  sent.input = "in \"quoted\".wav";
  sent.output_fd = 4;
  sent.real_time = true;
  sent.speed = 2.5;
  sent.async_chunk = false;
  sent.active_stream_window = 3;
  sent.record_steps = true;
  sent.replay = {7, 3, 1'000, 200, "run.jsonl", 1ULL << 63};
  sent.timeout_ms = 1'234;
  sent.chunk_options = {{"codec_chunk_frames", 25}};
  sent.connector = {
      11,     Role::dual, "::1", 50'052, "shm",  {{"device_name", "mlx5_0"}}, 3ULL << 33, "cuda",    "::2",
      50'051, 0.125,      7.5,   0.75,   "read", WaitStrategy::spin,          "secret",   "drop=0.5"};
  const Assignment got = round_trip(sent);
  EXPECT_EQ(
      std::tie(got.pipeline, got.position, got.stage_id, got.upstream, got.downstream, got.request_id),
      std::tie(sent.pipeline, sent.position, sent.stage_id, sent.upstream, sent.downstream, sent.request_id));
  EXPECT_EQ(std::tie(got.input, got.output_fd, got.real_time, got.timeout_ms, got.chunk_options),
            std::tie(sent.input, sent.output_fd, sent.real_time, sent.timeout_ms, sent.chunk_options));
  EXPECT_EQ(std::tie(got.speed, got.async_chunk), std::tie(sent.speed, sent.async_chunk));
  EXPECT_EQ(std::tie(got.active_stream_window, got.record_steps),
            std::tie(sent.active_stream_window, sent.record_steps));
  EXPECT_EQ(fields_of(got.replay), fields_of(sent.replay));
  EXPECT_EQ(fields_of(got.connector), fields_of(sent.connector));
}

TEST(StageMessages, the_others_travel_whole) {
  EXPECT_EQ(round_trip(Ready{"10.0.0.1", 4711}).port, 4711);
  EXPECT_EQ(round_trip(Start{"::1", 4711}).upstream_host, "::1");
  EXPECT_EQ(round_trip(Admit{5, 59}).count, 59U);
  EXPECT_EQ(round_trip(GiveUp{5, "stage 1 failed"}).reason, "stage 1 failed");
  const RequestEnded ended = round_trip(RequestEnded{5, false, ErrorCode::corrupt, "row 7", 11, 12});
  EXPECT_EQ(std::tie(ended.request, ended.ok, ended.code, ended.message, ended.first_at_us, ended.at_us),
            std::make_tuple(5U, false, ErrorCode::corrupt, "row 7", 11, 12));
  const StepsMade made = round_trip(StepsMade{{{5, 1LL << 50, 100, false}, {6, 12, 1, true}}});
  ASSERT_EQ(made.steps.size(), 2U);
  EXPECT_EQ(std::tie(made.steps[0].request, made.steps[0].at_us, made.steps[0].count, made.steps[0].last),
            std::make_tuple(5U, 1LL << 50, 100, false));
  EXPECT_TRUE(made.steps[1].last);
  EXPECT_EQ(round_trip(Progress{1.5, 1LL << 50}).at_us, 1LL << 50);
  const Failed failed = round_trip(Failed{ErrorCode::conflict, "port 1 is taken"});
  EXPECT_EQ(failed.code, ErrorCode::conflict);
  EXPECT_EQ(failed.message, "port 1 is taken");
  Done done;
  done.bytes = 1ULL << 60;
  done.most_held = 61;
  done.lease = {3, 4};
  done.route_reason = "same host";
  done.latency_p99_us = 7.25;
  const Done got = round_trip(done);
  EXPECT_EQ(got.bytes, done.bytes);
  EXPECT_EQ(got.most_held, 61U);
  EXPECT_EQ(got.lease.bytes, 4U);
  EXPECT_EQ(got.route_reason, "same host");
  EXPECT_EQ(got.latency_p99_us, 7.25);
  round_trip(Finish{});
  round_trip(Stop{});
}

TEST(StageMessages, a_text_that_is_not_utf8_does_not_get_in_the_way) {
  EXPECT_THAT(round_trip(Failed{ErrorCode::failed, "\xFF.wav"}).message, HasSubstr(".wav"));
}

TEST(StageMessages, nonsense_is_corrupt) {
  for (const char* text : {"", "no json", "[]", "{}", R"({"type": 7})", R"({"type": "fly"})",
                           R"({"type": "ready"})", R"({"type": "ready", "host": 7, "port": 1})"}) {
    const auto message = decode_message(text);
    ASSERT_FALSE(message.ok()) << text;
    EXPECT_EQ(message.error().code(), ErrorCode::corrupt);
  }
}

TEST(ControlChannel, carries_messages_in_order_and_tells_of_the_end) {
  auto pair = ControlChannel::create();
  ASSERT_TRUE(pair.ok()) << pair.error().to_string();
  const ControlChannel here = std::move(pair->first);
  {
    const ControlChannel there(std::move(pair->second));
    EXPECT_FALSE(here.receive()->has_value());
    ASSERT_TRUE(there.send(Ready{"host", 1}, true).ok());
    ASSERT_TRUE(there.send(Finish{}, false).ok());
  }
  EXPECT_TRUE(std::holds_alternative<Ready>(**here.receive()));
  EXPECT_TRUE(std::holds_alternative<Finish>(**here.receive()));
  EXPECT_EQ(here.receive().error().code(), ErrorCode::unavailable);
  EXPECT_EQ(here.send(Stop{}, false).error().code(), ErrorCode::unavailable);
}

TEST(ControlChannel, a_reader_that_does_not_read_is_not_waited_for) {
  const auto pair = ControlChannel::create();
  ASSERT_TRUE(pair.ok());
  Status status;
  for (int i = 0; i < 100'000 && status.ok(); ++i) status = pair->first.send(Progress{}, /*wait=*/false);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), ErrorCode::exhausted);
  EXPECT_EQ(pair->first.send(Failed{ErrorCode::failed, std::string(70'000, 'x')}, false).error().code(),
            ErrorCode::too_large);
}

}  // namespace
}  // namespace stagewire::pipeline
