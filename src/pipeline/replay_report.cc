#include "pipeline/replay_report.hpp"

#include <algorithm>
#include <cmath>

namespace stagewire::pipeline {
namespace {

RequestReport report_of(const PlannedRequest& request, const RequestOutcome& outcome,
                        std::span<const std::string> stages, double speed) {
  // A request of a trace is admitted with all others and begins when the trace says so.
  const double wait_us = speed > 0 ? request.start_seconds / speed * 1e6 : 0;
  const std::int64_t started_us = outcome.started_us + std::llround(wait_us);
  RequestReport report;
  report.id = request.id;
  report.audio_seconds = request.audio_seconds;
  report.run_seconds = std::max(0.0, seconds_between(started_us, outcome.ended_us));
  if (outcome.first_packet_us != 0)
    report.first_packet_seconds = std::max(0.0, seconds_between(started_us, outcome.first_packet_us));
  if (outcome.failure) {
    const Failed& failure = *outcome.failure;
    report.error = stages[outcome.failed_stage] + ": " + Error(failure.code, failure.message).to_string();
  }
  return report;
}

}  // namespace

double seconds_between(std::int64_t from_us, std::int64_t to_us) {
  return static_cast<double>(to_us - from_us) / 1e6;
}

void add_requests(const RequestPlan& plan, const std::vector<RequestOutcome>& outcomes,
                  std::span<const std::string> stages, const ReplayClock& clock, PipelineReport& report) {
  report.audio_seconds = 0;
  report.first_packet_seconds = 0;
  std::int64_t first_packet_us = 0;
  for (std::size_t i = 0; i < plan.requests.size(); ++i) {
    report.requests.push_back(report_of(plan.requests[i], outcomes[i], stages, clock.speed));
    if (!outcomes[i].failure) report.audio_seconds += plan.requests[i].audio_seconds;
    const std::int64_t packet_us = outcomes[i].first_packet_us;
    if (packet_us != 0 && (first_packet_us == 0 || packet_us < first_packet_us)) first_packet_us = packet_us;
  }
  if (first_packet_us != 0) report.first_packet_seconds = seconds_between(clock.started_us, first_packet_us);
}

}  // namespace stagewire::pipeline
