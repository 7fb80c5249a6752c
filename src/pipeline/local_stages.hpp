// The stage processes of this host.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "pipeline/control_channel.hpp"
#include "pipeline/output_lines.hpp"
#include "pipeline/stage_group.hpp"

namespace stagewire::pipeline {

struct StageLaunch {
  std::string name;
  Assignment assignment;  ///< its output_fd >= 0: a descriptor of this process, the stage gets its own number
  std::map<std::string, std::string> environment;
};

/// Those that still run when this is destroyed are killed.
class LocalStages final : public StageGroup {
 public:
  /// Starts all of them, or none. `command`: see PipelineOptions::stage_command.
  Status start(const std::vector<StageLaunch>& launches, const std::vector<std::string>& command);

  std::vector<std::size_t> positions() const override;
  pid_t pid(std::size_t position) const override { return at(position).process.pid(); }
  std::string place(std::size_t) const override { return {}; }
  bool is_stopped(std::size_t position) const override;
  void send(std::size_t position, const Message& message) override;
  void kill_stage(std::size_t position) override { at(position).process.kill(); }
  void watch(std::vector<pollfd>& fds) const override;
  base::Deadline due() const override { return base::Deadline::never(); }
  void serve(std::span<const pollfd> fds, StageSink& sink) override;

  void send_all(const Message& message);
  void kill_all();
  bool all_ended() const;

 private:
  struct Stage {
    Stage(std::size_t where, ChildProcess child, ControlChannel control)
        : position(where), process(std::move(child)), channel(std::move(control)) {}
    std::size_t position;
    ChildProcess process;
    ControlChannel channel;
    OutputLines output;
    bool channel_open = true;
    bool output_open = true;
    bool ended = false;
  };

  Status start_stage(const StageLaunch& launch, const std::vector<std::string>& command);
  void take_messages(Stage& stage, StageSink& sink);
  void take_output(Stage& stage, StageSink& sink);
  void take_exit(Stage& stage, StageSink& sink);
  Stage& at(std::size_t position);
  const Stage& at(std::size_t position) const { return const_cast<LocalStages*>(this)->at(position); }

  std::vector<Stage> stages_;
};

}  // namespace stagewire::pipeline
