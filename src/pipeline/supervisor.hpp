// Starts the stage processes of one run, watches them and sees to it that all of them end.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "pipeline/child_process.hpp"
#include "pipeline/control_channel.hpp"
#include "pipeline/outcome.hpp"
#include "pipeline/output_lines.hpp"
#include "pipeline/request_board.hpp"
#include "pipeline/step_recording.hpp"
#include "stagewire/pipeline.hpp"

namespace stagewire::pipeline {

struct StageLaunch {
  std::string name;
  Assignment assignment;  ///< its output_fd >= 0: a descriptor of this process, the stage gets its own number
  std::map<std::string, std::string> environment;
};

struct RunOptions {
  std::vector<StageLaunch> stages;   ///< in the order of the chain
  std::vector<std::string> command;  ///< see PipelineOptions::stage_command
  Milliseconds timeout{60'000};
  double total_seconds = 0;  ///< of audio, for on_progress()
  int stop_fd = -1;
  RequestBoard* board = nullptr;       ///< of a replay; outlives the run
  StepRecording* recording = nullptr;  ///< of one that is recorded; the same
};

struct RunTimes {
  std::int64_t started_us = 0;       ///< when the stages were told to start
  std::int64_t first_packet_us = 0;  ///< when the last stage had its first result
};

/// One run, on one thread, in one loop over everything that can happen: a message, a line of output, the end
/// of a process, a stop, a deadline.
class Supervisor {
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
    Stage(std::string stage_name, ChildProcess child, ControlChannel control)
        : name(std::move(stage_name)), process(std::move(child)), channel(std::move(control)) {}
    std::string name;
    ChildProcess process;
    ControlChannel channel;
    OutputLines output;
    int stage_id = 0;
    bool channel_open = true;
    bool output_open = true;
    std::optional<Ready> ready;
    std::optional<Done> done;
    std::optional<Failed> failed;
    std::optional<ExitStatus> exit;
    std::uint64_t failure_order = 0;
    base::TimePoint last_heard{};  // or when it was last told to do something
    bool killed = false;           // by us

    bool ended() const { return exit.has_value() && !output_open; }
  };

  Status start_all();
  Status start_stage(const StageLaunch& launch);
  void wait_for_events();
  void take_messages(std::size_t index);
  void take_message(std::size_t index, Message message);
  void take_output(Stage& stage);
  void take_exit(std::size_t index);
  void note_failure(Stage& stage);
  void note_request(std::size_t index, const RequestEnded& ended);
  void note_steps(Stage& stage, std::size_t index, const StepsMade& made);
  void refuse(Stage& stage, const Error& error);
  void admit_requests();
  void advance();
  void send_start();
  void send_all(const Message& message);
  void stop_all();
  void enforce_deadlines();
  void blame_stopped();
  base::Duration longest_silence() const;
  bool all_ended() const;
  bool is_awaited(const Stage& stage) const;
  const Stage* longest_silent() const;
  std::vector<StageOutcome> outcomes() const;

  RunOptions options_;
  PipelineObserver& observer_;
  std::vector<Stage> stages_;
  RunTimes times_;
  bool started_ = false;
  bool finishing_ = false;
  bool stopping_ = false;
  std::optional<Error> verdict_;  // a reason for stopping that no stage gave
  std::uint64_t failures_ = 0;
  base::Deadline kill_at_ = base::Deadline::never();
};

}  // namespace stagewire::pipeline
