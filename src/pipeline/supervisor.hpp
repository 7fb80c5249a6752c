// Starts the stage processes of one run, watches them and sees to it that all of them end.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "pipeline/local_stages.hpp"
#include "pipeline/outcome.hpp"
#include "pipeline/request_board.hpp"
#include "pipeline/step_recording.hpp"
#include "stagewire/pipeline.hpp"

namespace stagewire::pipeline {

struct StageName {
  int stage_id = 0;
  std::string name;  ///< "talker"
};

/// Whether the stages can meet where they listen, by position.
using MeetingCheck = std::function<Status(const std::vector<Ready>&)>;

struct RunOptions {
  std::vector<StageLaunch> stages;   ///< of this host, in the order of the chain
  StageGroup* others = nullptr;      ///< the stages of other hosts, which have been started; outlives the run
  std::vector<StageName> names;      ///< of all stages, in the order of the chain
  std::vector<std::string> command;  ///< see PipelineOptions::stage_command
  Milliseconds timeout{60'000};
  double total_seconds = 0;  ///< of audio, for on_progress()
  int stop_fd = -1;
  MeetingCheck check_meeting;          ///< before the start; may be empty
  RequestBoard* board = nullptr;       ///< of a replay; outlives the run
  StepRecording* recording = nullptr;  ///< of one that is recorded; the same
};

struct RunTimes {
  std::int64_t started_us = 0;       ///< when the stages were told to start
  std::int64_t first_packet_us = 0;  ///< when the last stage had its first result
};

/// One run, on one thread, in one loop over everything that can happen: a message, a line of output, the end
/// of a process, a stop, a deadline.
class Supervisor final : private StageSink {
 public:
  Supervisor(RunOptions options, PipelineObserver& observer);

  /// Blocks until every stage has ended; a stage that does not end within a second of being told to is
  /// killed.
  Status run();

  const RunTimes& times() const { return times_; }
  /// What each stage said at its end, in the order of the chain. After a run() that succeeded.
  std::vector<Done> reports() const;

 private:
  struct Stage {
    StageGroup* group = nullptr;
    StageName name;
    std::optional<Ready> ready;
    std::optional<Done> done;
    std::optional<Failed> failed;
    std::optional<StageExit> exit;
    std::uint64_t failure_order = 0;
    base::TimePoint last_heard{};  // or when it was last told to do something
    bool killed = false;           // by us
    bool lost = false;             // with its host

    bool ended() const { return exit.has_value() || lost; }
  };

  void on_message(std::size_t position, Message message) override;
  void on_nonsense(std::size_t position, const Error& error) override;
  void on_output(std::size_t position, std::string_view line) override;
  void on_exit(std::size_t position, const StageExit& exit) override;
  void on_lost(std::span<const std::size_t> positions, const Error& reason) override;

  Status start_all();
  void wait_for_events();
  void take_message(std::size_t position, Message message);
  void note_failure(Stage& stage);
  void note_request(std::size_t position, const RequestEnded& ended);
  void note_steps(Stage& stage, std::size_t position, const StepsMade& made);
  void refuse(Stage& stage, const Error& error);
  void admit_requests();
  void advance();
  void start_or_refuse();
  void send_start();
  void send_all(const Message& message);
  void stop_all();
  void enforce_deadlines();
  void kill_all();
  void blame_stopped();
  bool has_reason() const;
  base::Duration longest_silence() const;
  bool all_ended() const;
  bool is_awaited(const Stage& stage) const;
  /// The position; nullopt when no stage is awaited.
  std::optional<std::size_t> longest_silent() const;
  StageOutcome outcome_of(std::size_t position) const;
  std::vector<StageOutcome> outcomes() const;

  RunOptions options_;
  PipelineObserver& observer_;
  LocalStages local_;
  std::vector<StageGroup*> groups_;
  std::vector<Stage> stages_;  // by position
  RunTimes times_;
  bool started_ = false;
  bool finishing_ = false;
  bool stopping_ = false;
  std::optional<Error> verdict_;  // a reason for stopping that no stage gave
  std::uint64_t failures_ = 0;
  base::Deadline kill_at_ = base::Deadline::never();
};

}  // namespace stagewire::pipeline
