#include "pipeline/replay_report.hpp"

#include <gtest/gtest.h>

#include <array>

namespace stagewire::pipeline {
namespace {

const std::array<std::string, 2> kStages{"stage 4 (a)", "stage 5 (b)"};

RequestOutcome outcome(std::int64_t started_us, std::int64_t first_packet_us, std::int64_t ended_us) {
  RequestOutcome outcome;
  outcome.started_us = started_us;
  outcome.first_packet_us = first_packet_us;
  outcome.ended_us = ended_us;
  return outcome;
}

TEST(ReplayReport, times_count_from_a_request_s_own_start) {
  const RequestPlan plan{{{"a", 10, 0}, {"b", 20, 0}}, 1};
  PipelineReport report;
  add_requests(plan, {outcome(1'000'000, 1'500'000, 3'000'000), outcome(3'000'000, 3'250'000, 4'000'000)},
               kStages, {1'000'000, 1}, report);
  ASSERT_EQ(report.requests.size(), 2U);
  EXPECT_EQ(report.requests[1].id, "b");
  EXPECT_EQ(report.requests[1].run_seconds, 1);
  EXPECT_EQ(report.requests[1].first_packet_seconds, 0.25);
  EXPECT_EQ(report.requests[0].run_seconds, 2);
  EXPECT_EQ(report.audio_seconds, 30);
  EXPECT_EQ(report.first_packet_seconds, 0.5);
  EXPECT_EQ(report.failed_count(), 0U);
}

TEST(ReplayReport, a_request_of_a_trace_begins_when_the_trace_says_so) {
  const RequestPlan plan{{{"a", 10, 4}}, 1};
  const std::vector<RequestOutcome> outcomes{outcome(0, 3'000'000, 5'000'000)};
  PipelineReport twice_as_fast;
  add_requests(plan, outcomes, kStages, {0, 2}, twice_as_fast);
  EXPECT_EQ(twice_as_fast.requests[0].first_packet_seconds, 1);
  EXPECT_EQ(twice_as_fast.requests[0].run_seconds, 3);
  PipelineReport without_times;
  add_requests(plan, outcomes, kStages, {0, 0}, without_times);
  EXPECT_EQ(without_times.requests[0].first_packet_seconds, 3);
}

TEST(ReplayReport, a_failure_names_its_stage_and_its_audio_does_not_count) {
  const RequestPlan plan{{{"a", 10, 0}, {"b", 20, 0}}, 2};
  RequestOutcome failed = outcome(0, 0, 2'000'000);
  failed.failed_stage = 1;
  failed.failure = Failed{ErrorCode::timeout, "nothing came"};
  PipelineReport report;
  add_requests(plan, {failed, outcome(0, 1'000'000, 2'000'000)}, kStages, {0, 0}, report);
  EXPECT_EQ(report.requests[0].error, "stage 5 (b): timeout: nothing came");
  EXPECT_EQ(report.requests[0].first_packet_seconds, 0);
  EXPECT_EQ(report.audio_seconds, 20);
  EXPECT_EQ(report.failed_count(), 1U);
}

}  // namespace
}  // namespace stagewire::pipeline
