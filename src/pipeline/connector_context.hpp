// A stage's chunks over its connector: keys, deadlines and counts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "pipeline/stage_context.hpp"
#include "pipeline/stage_control.hpp"
#include "stagewire/connector.hpp"

namespace stagewire::pipeline {

/// Chunk n that stage S sends for a request has the key "{request}_{S}_{n}". The connector and the control
/// outlive it.
class ConnectorContext final : public StageContext {
 public:
  ConnectorContext(const Assignment& assignment, Connector& connector, StageControl& control);

  const std::string& input() const override { return assignment_.input; }
  int output() const override { return assignment_.output_fd; }
  const std::map<std::string, std::int64_t>& chunk_options() const override {
    return assignment_.chunk_options;
  }
  Result<Chunk> receive() override;
  Status send(const Value& payload) override;
  Status pace(base::Duration since_first) override;
  void report_progress(double audio_seconds) override;

  /// What the pipeline is told when the stage function has come to its end.
  Done done();

 private:
  Milliseconds timeout() const { return Milliseconds(assignment_.timeout_ms); }
  std::string key(int from_stage, std::uint64_t chunk) const;
  Status ask_ahead();

  const Assignment& assignment_;
  Connector& connector_;
  StageControl& control_;
  std::uint64_t asked_ = 0;  // chunks, as the others
  std::uint64_t received_ = 0;
  std::uint64_t received_bytes_ = 0;
  std::int64_t last_received_us_ = 0;
  std::uint64_t sent_ = 0;
  std::optional<base::TimePoint> first_pace_;
};

/// What a stage's connector has received by now; without last_chunk_at_us, which it does not know.
Done received_by(Connector& connector);

/// The time now on CLOCK_MONOTONIC, which is the same in all processes of a host.
std::int64_t now_us();

}  // namespace stagewire::pipeline
