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
