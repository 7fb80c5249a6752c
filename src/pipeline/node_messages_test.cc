#include "pipeline/node_messages.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stagewire::pipeline {
namespace {

using ::testing::HasSubstr;

template <typename T>
T round_trip(const T& message) {
  auto decoded = decode_node_message(encode_node_message(message));
  EXPECT_TRUE(decoded.ok()) << decoded.error().to_string();
  EXPECT_TRUE(std::holds_alternative<T>(*decoded));
  return std::get<T>(*decoded);
}

TEST(NodeMessages, a_hello_travels_whole) {
  Hello hello;
  hello.release = "0.1.0";
  hello.name = "vm2";
  hello.pid = 4711;
  hello.instance = "4711-1";
  hello.boot_id = "boot";
  hello.network = "boot net";
  hello.pipeline = "qwen3_omni_moe";
  hello.stages = {1, 2};
  hello.plan = {{"stage 1", "0123"}};
  hello.options = {{"--seed", "18446744073709551615"}};
  const Hello got = round_trip(hello);
  EXPECT_EQ(got.protocol, kNodeProtocol);
  EXPECT_EQ(got.who(), "node vm2 (pid 4711, stages 1, 2)");
  EXPECT_EQ(got.instance, hello.instance);
  EXPECT_EQ(got.network, hello.network);
  EXPECT_EQ(got.plan, hello.plan);
  EXPECT_EQ(got.options, hello.options);
}

TEST(NodeMessages, the_others_travel_whole) {
  Begin begin;
  begin.request_id = "serve-1";
  begin.replay.seed = UINT64_MAX;
  begin.trace_digest = "0123";
  begin.real_time = true;
  begin.speed = 0.25;
  begin.timeout_ms = 60'000;
  const Begin got = round_trip(begin);
  EXPECT_EQ(got.replay.seed, UINT64_MAX);
  EXPECT_EQ(got.speed, 0.25);
  EXPECT_TRUE(got.real_time);
  EXPECT_EQ(round_trip(Welcome{"boot", 5000}).heartbeat_timeout_ms, 5000);
  EXPECT_EQ(round_trip(Refused{ErrorCode::conflict, "taken"}).code, ErrorCode::conflict);
  EXPECT_EQ(round_trip(Started{2, 99}).pid, 99);
  EXPECT_EQ(round_trip(KillStage{2}).position, 2U);
  EXPECT_EQ(round_trip(Exited{1, true, 9, "bye"}).number, 9);
  EXPECT_EQ(round_trip(BeatAnswer{5, 6}).at_us, 6);
  EXPECT_EQ(round_trip(Beat{5}).sent_at_us, 5);
  EXPECT_EQ(round_trip(Leaving{ErrorCode::cancelled, "stop"}).message, "stop");
  EXPECT_EQ(round_trip(RunEnd{true, ErrorCode::failed, "", 3, 1, 2.5}).audio_seconds, 2.5);
  const ToStage to = round_trip(ToStage{1, encode_message(Admit{3, 4})});
  EXPECT_EQ(std::get<Admit>(*decode_message(to.message)).count, 4U);
  EXPECT_EQ(round_trip(FromStage{1, "x"}).message, "x");
}

TEST(NodeMessages, R16_what_is_none_is_refused) {
  const char* const kBad[] = {
      "",
      "[]",
      "7",
      "{}",
      R"({"type": "hallo"})",
      R"({"type": "beat"})",
      R"({"type": "beat", "sent_at_us": "now"})",
      R"({"type": "beat", "sent_at_us": 1e300})",
      R"({"type": "beat", "sent_at_us": 9223372036854775807})",
      R"({"type": "kill_stage", "position": 0.5})",
      R"({"type": "run_end", "ok": true, "code": 1, "message": "", "requests_done": 1,
          "requests_failed": 0, "audio_seconds": 1e300})",
      R"({"type": "beat", "sent_at_us": 1, "more": {"a": {"b": {"c": {"d": {"e": {}}}}}}})",
  };
  for (const char* text : kBad) {
    const auto decoded = decode_node_message(text);
    ASSERT_FALSE(decoded.ok()) << text;
    EXPECT_EQ(decoded.error().code(), ErrorCode::corrupt) << text;
  }
}

TEST(NodeMessages, unknown_codes_are_failures_and_texts_move_no_cursor) {
  const auto decoded =
      decode_node_message(R"({"type": "leaving", "code": 4711, "message": "a\u001b[2Jb\nc"})");
  ASSERT_TRUE(decoded.ok()) << decoded.error().to_string();
  EXPECT_EQ(std::get<Leaving>(*decoded).code, ErrorCode::failed);
  EXPECT_EQ(std::get<Leaving>(*decoded).message, "a\\x1b[2Jb\\nc");
  const auto failed = decode_message(R"({"type": "failed", "code": 0, "message": ""})");
  ASSERT_TRUE(failed.ok());
  EXPECT_EQ(std::get<Failed>(*failed).code, ErrorCode::failed);
}

TEST(NodeMessages, times_move_to_another_clock_and_no_time_stays_none) {
  RequestEnded ended;
  ended.at_us = 100;
  const auto shifted = std::get<RequestEnded>(shift_clock(ended, -30));
  EXPECT_EQ(shifted.at_us, 70);
  EXPECT_EQ(shifted.first_at_us, 0);
  Done done;
  done.at_us = 5;
  done.last_chunk_at_us = 4;
  EXPECT_EQ(std::get<Done>(shift_clock(done, 10)).last_chunk_at_us, 14);
  EXPECT_EQ(std::get<Progress>(shift_clock(Progress{1, 5}, 10)).at_us, 15);
  EXPECT_EQ(std::get<Ready>(shift_clock(Ready{"h", 5}, 10)).port, 5);
}

}  // namespace
}  // namespace stagewire::pipeline
