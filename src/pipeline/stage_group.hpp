// Stage processes in one place, on this host or on others, as the supervisor sees them: by their positions in
// the chain.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "pipeline/child_process.hpp"
#include "pipeline/stage_messages.hpp"

namespace stagewire::pipeline {

struct StageExit {
  ExitStatus status;
  std::string last_words;  ///< the last lines that it printed
};

/// Told what happens to stages. A stage's exit comes last.
class StageSink {
 public:
  virtual ~StageSink() = default;
  virtual void on_message(std::size_t position, Message message) = 0;
  /// What it says cannot be understood.
  virtual void on_nonsense(std::size_t position, const Error& error) = 0;
  virtual void on_output(std::size_t position, std::string_view line) = 0;
  virtual void on_exit(std::size_t position, const StageExit& exit) = 0;
  /// The host of these stages is gone, or gives up; nothing more comes from them.
  virtual void on_lost(std::span<const std::size_t> positions, const Error& reason) = 0;
};

/// One thread at a time.
class StageGroup {
 public:
  virtual ~StageGroup() = default;

  virtual std::vector<std::size_t> positions() const = 0;
  /// -1: not known.
  virtual pid_t pid(std::size_t position) const = 0;
  /// Where it runs, "on vm2"; empty: here.
  virtual std::string place(std::size_t position) const = 0;
  /// Whether somebody has stopped it (SIGSTOP, a debugger), as far as can be seen from here.
  virtual bool is_stopped(std::size_t position) const = 0;

  /// A stage that is gone shows it by its end.
  virtual void send(std::size_t position, const Message& message) = 0;
  virtual void kill_stage(std::size_t position) = 0;

  /// Adds the descriptors to wait for.
  virtual void watch(std::vector<pollfd>& fds) const = 0;
  /// When serve() is due without any of them.
  virtual base::Deadline due() const = 0;
  /// Tells what has happened. `fds` are those that watch() added, polled.
  virtual void serve(std::span<const pollfd> fds, StageSink& sink) = 0;
};

}  // namespace stagewire::pipeline
