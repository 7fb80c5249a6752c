#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "stagewire/pipeline.hpp"

namespace stagewire {
namespace {

using ::testing::HasSubstr;

PipelineReport example() {
  PipelineReport report;
  report.request_id = "serve-1";
  report.input = "in.wav";
  report.output = "out.wav";
  report.audio_seconds = 10;
  report.run_seconds = 0.5;
  report.first_packet_seconds = 0.0125;
  EdgeReport edge;
  edge.from_stage = 0;
  edge.to_stage = 1;
  edge.connector = "speech";
  edge.eager = {118, 236};
  edge.route_reason = "shm: same host";
  edge.chunks = 118;
  edge.bytes = 236;
  edge.mb_per_s = 1.5;
  edge.latency_p50_us = 12;
  edge.latency_p90_us = 20;
  edge.latency_p99_us = 40.5;
  report.edges = {edge};
  return report;
}

TEST(Report, a_route_is_named_and_several_are_counted) {
  EdgeReport edge;
  EXPECT_EQ(edge.route(), "none");
  edge.eager.count = 118;
  EXPECT_EQ(edge.route(), "eager");
  edge.read.count = 2;
  EXPECT_EQ(edge.route(), "eager 118, read 2");
}

TEST(Report, R25_the_text_has_every_figure) {
  EXPECT_EQ(
      to_text(example()),
      "request serve-1: 10.00 s of audio in 0.500 s, real-time factor 0.0500, first packet after 12.5 ms\n"
      "edge 0 -> 1 over speech: route eager (shm: same host)\n"
      "  118 chunks, 236 bytes, 1.500 MB/s; put to ready p50 12.0 us, p90 20.0 us, p99 40.5 us\n");
}

TEST(Report, what_the_window_held_back_is_said) {
  PipelineReport report = example();
  report.edges[0].most_held = 3;
  EXPECT_TRUE(to_text(report).ends_with("  up to 3 requests at once held back by active_stream_window\n"));
}

/// Three requests, the second of which failed.
PipelineReport replay_example() {
  PipelineReport report = example();
  report.pipeline = "qwen3_omni_moe";
  report.request_id = "serve-2";
  report.audio_seconds = 20;
  report.run_seconds = 4;
  report.first_packet_seconds = 0.5;
  report.requests = {{"a", "", 10, 2, 0.5},
                     {"b", "stage 1 (talker): timeout: nothing came", 10, 1, 0},
                     {"c", "", 10, 4, 0.75}};
  return report;
}

TEST(Report, R25_the_text_of_a_replay_has_every_request_and_all_together) {
  EXPECT_THAT(
      to_text(replay_example()),
      ::testing::StartsWith(
          "replay serve-2 of qwen3_omni_moe, 2 requests done, 1 failed: 20.00 s of audio in 4.000 s, "
          "real-time "
          "factor 0.2000, first packet after 500.0 ms\n"
          "  of a request: first packet p50 500.0 ms, p90 750.0 ms, p99 750.0 ms; real-time factor p50 "
          "0.2000, "
          "p90 0.4000, p99 0.4000\n"
          "request a: 10.00 s of audio in 2.000 s, real-time factor 0.2000, first packet after 500.0 ms\n"
          "request b failed: stage 1 (talker): timeout: nothing came\n"
          "request c: 10.00 s of audio in 4.000 s, real-time factor 0.4000, first packet after 750.0 ms\n"
          "edge 0 -> 1 over speech: route eager"));
}

TEST(Report, a_long_list_of_requests_is_cut_in_the_text_only) {
  PipelineReport report = replay_example();
  report.requests.assign(150, {"a", "", 10, 2, 0.5});
  EXPECT_THAT(to_text(report), HasSubstr("and 50 more, see --stats-json\n"));
  EXPECT_EQ(nlohmann::json::parse(to_json(report))["requests"].size(), 150U);
}

TEST(Report, R25_the_json_of_a_replay_has_every_figure) {
  const auto json = nlohmann::json::parse(to_json(replay_example()));
  EXPECT_EQ(json["run"]["pipeline"], "qwen3_omni_moe");
  EXPECT_EQ(json["run"]["requests"], 3);
  EXPECT_EQ(json["run"]["failed"], 1);
  EXPECT_EQ(json["run"]["real_time_factor"], 0.2);
  EXPECT_EQ(json["run"]["request_first_packet_ms"]["p90"], 750);
  EXPECT_EQ(json["run"]["request_real_time_factor"]["p50"], 0.2);
  EXPECT_EQ(json["requests"][1]["status"], "failed");
  EXPECT_EQ(json["requests"][1]["error"], "stage 1 (talker): timeout: nothing came");
  EXPECT_EQ(json["requests"][2]["status"], "done");
  EXPECT_EQ(json["requests"][2]["time_to_first_packet_ms"], 750);
  EXPECT_EQ(json["edges"][0]["chunks"], 118);
}

TEST(Report, R25_the_json_has_every_figure) {
  const auto json = nlohmann::json::parse(to_json(example()));
  EXPECT_EQ(json["request"]["time_to_first_packet_ms"], 12.5);
  EXPECT_EQ(json["request"]["real_time_factor"], 0.05);
  EXPECT_EQ(json["request"]["audio_s"], 10);
  const auto& edge = json["edges"][0];
  EXPECT_EQ(edge["route"], "eager");
  EXPECT_EQ(edge["route_reason"], "shm: same host");
  EXPECT_EQ(edge["routes"]["eager"]["chunks"], 118);
  EXPECT_EQ(edge["chunks"], 118);
  EXPECT_EQ(edge["bytes"], 236);
  EXPECT_EQ(edge["mb_per_s"], 1.5);
  EXPECT_EQ(edge["latency_us"]["p99"], 40.5);
}

}  // namespace
}  // namespace stagewire
