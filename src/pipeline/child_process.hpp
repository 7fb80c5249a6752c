// One child process: started, signalled, reaped. Nothing of this process leaks into it but what is named.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "stagewire/result.hpp"

namespace stagewire::pipeline {

struct ExitStatus {
  bool killed = false;  ///< by a signal
  int number = 0;       ///< the signal, or the exit status

  bool success() const { return !killed && number == 0; }
  std::string text() const;  ///< "was killed by signal 9 (Killed)", "ended with exit status 3"
};

struct ChildOptions {
  std::vector<std::string> command;                ///< program (looked up in PATH) and arguments
  std::map<std::string, std::string> environment;  ///< added to this process's
  std::vector<int> fds;                            ///< become 3, 4, ... in the child; borrowed
};

/// Move-only, one thread at a time. A child that still runs when its object is destroyed is killed and
/// reaped.
class ChildProcess {
 public:
  /// Standard input is empty; standard output and error go to output_fd(). The child ignores Ctrl-C (SIGINT
  /// is blocked): who started it decides what it means.
  static Result<ChildProcess> start(const ChildOptions& options);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  int exit_fd() const { return exit_fd_.get(); }      ///< readable when the child has ended
  int output_fd() const { return output_fd_.get(); }  ///< non-blocking
  /// Reaps it; nullopt while it runs. The same answer ever after.
  std::optional<ExitStatus> try_reap();
  /// Also when it is stopped or has ended already.
  void kill();

 private:
  ChildProcess() = default;
  pid_t pid_ = -1;
  base::UniqueFd exit_fd_;
  base::UniqueFd output_fd_;
  std::optional<ExitStatus> exit_status_;
};

}  // namespace stagewire::pipeline
