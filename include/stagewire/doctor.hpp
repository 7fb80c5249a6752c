// What this machine can do for stagewire, what stands in the way, and what to do about it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "stagewire/result.hpp"

namespace stagewire {

/// One fact about this machine.
struct Finding {
  enum class State {
    good,     ///< as it should be
    note,     ///< works, but slower or with less than it could
    problem,  ///< pipelines on this host cannot run before this is mended
  };
  std::string topic;  ///< "backends", "addresses", "limits", "memory", "kernel", "cpu" or "libraries"
  std::string name;   ///< unique within the topic: "memlock"
  State state = State::good;
  std::string value;    ///< what was found: "8 MiB"
  std::string advice;   ///< why that matters, empty when there is nothing to say
  std::string command;  ///< what to type to mend it, empty when there is nothing to mend
};

STAGEWIRE_API std::string_view to_string(Finding::State state);

struct MachineReport {
  std::vector<Finding> findings;  ///< grouped by topic
  bool one_host = false;          ///< pipelines whose stages are all on this host can run
};

/// Looks at this machine and process; changes nothing. Opens libraries and tries system calls, so call it
/// from a program's start or from a tool, not from a data path. Any thread, blocks on the file system only.
STAGEWIRE_API MachineReport machine_report();

}  // namespace stagewire
