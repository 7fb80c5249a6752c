// A node of a run over several hosts that is not the master: calls it, runs the stages that it has been
// given, and stands between them and the master's supervisor.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control/control_plane.hpp"
#include "pipeline/local_stages.hpp"
#include "pipeline/node_messages.hpp"
#include "stagewire/pipeline.hpp"

namespace stagewire::pipeline {

struct NodeSetup {
  std::string master_host;  ///< in digits
  int master_port = 0;
  std::string secret_key;
  Milliseconds start_timeout{120'000};  ///< for the master to answer
  Hello hello;
  /// What to start once the master has said how; an error ends the run.
  std::function<Result<std::vector<StageLaunch>>(const Begin&)> launches;
  std::vector<std::string> command;  ///< see PipelineOptions::stage_command
  int stop_fd = -1;
};

/// One run, on one thread.
class Node final : private StageSink, private control::ControlSink {
 public:
  Node(NodeSetup options, PipelineObserver& observer);

  /// Blocks until every stage of this node has ended. The master's word on the run; or why it came to none:
  /// `timeout`, `permission`, `unavailable` name the master, other errors are what the master said.
  Result<RunEnd> run();

 private:
  // StageSink: of the stages here
  void on_message(std::size_t position, Message message) override;
  void on_nonsense(std::size_t position, const Error& error) override;
  void on_output(std::size_t position, std::string_view line) override;
  void on_exit(std::size_t position, const StageExit& exit) override;
  void on_lost(std::span<const std::size_t>, const Error&) override {}
  // ControlSink: of the master
  void on_call(const control::CallerId&, std::span<const std::byte>) override {}
  void on_answer(control::DialId dial, std::span<const std::byte> payload) override;
  void on_connected(control::DialId dial) override;
  void on_disconnected(control::DialId dial) override;

  Status call_master();
  void wait_for_events();
  void take(const NodeMessage& message);
  void take_to_stage(const ToStage& to);
  void begin(const Begin& begin);
  void note_clock(const BeatAnswer& answer);
  void enforce_deadlines();
  void send(const NodeMessage& message);
  /// The first reason counts. The stages are told to stop, and killed when they do not.
  void stop(const Error& reason);
  void leave(const Error& reason);
  bool is_over() const;
  std::string master() const;
  base::TimePoint wake_at() const;

  NodeSetup options_;
  PipelineObserver& observer_;
  std::unique_ptr<control::ControlPlane> plane_;
  control::DialId dial_ = 0;
  LocalStages stages_;
  std::map<std::size_t, int> stage_ids_;  // by position
  base::Deadline call_until_ = base::Deadline::never();
  bool welcome_ = false;
  bool leaving_ = false;  // the master is told, its last word is waited for
  std::optional<RunEnd> end_;
  std::optional<Error> failure_;
  Milliseconds heartbeat_timeout_{};  // the master's
  base::TimePoint master_heard_{};
  base::TimePoint beat_at_ = base::TimePoint::max();
  base::Deadline kill_at_ = base::Deadline::never();
  std::int64_t clock_offset_us_ = 0;  // the master's clock minus this host's
  std::int64_t best_trip_us_ = INT64_MAX;
  bool shares_clock_ = false;
};

}  // namespace stagewire::pipeline
