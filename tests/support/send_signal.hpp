// Signals from tests to processes that they started.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/types.h>

namespace stagewire::test {

/// kill() for one process only. 0 and negative numbers, which a look-up that failed leaves behind, mean
/// groups, or every process of the machine: they are a failed test, and nothing is sent. Whether it was sent.
inline bool send_signal(pid_t pid, int signal) {
  if (pid > 1) return ::kill(pid, signal) == 0;
  ADD_FAILURE() << "signal " << signal << " to process " << pid << " was not sent";
  return false;
}

}  // namespace stagewire::test
