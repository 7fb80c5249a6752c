// stagewire bench handoff: payloads from one process to another on one host, by route and size.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stagewire::bench {

struct HandoffOptions {
  bool json = false;
  int rounds = 5;  ///< of each measurement, taken in turn with its yardstick; medians are printed
  double seconds_per_round = 0.3;  ///< about
  std::uint64_t pool_size = 1ULL << 30U;
  std::vector<std::string> cases;    ///< empty = all
  std::vector<std::uint64_t> sizes;  ///< bytes; of the cases that have several. Empty = all
};

/// What is wrong with the names and sizes that are asked for; empty = nothing. Names those that there are.
std::string handoff_problem(const HandoffOptions& options);

/// Exit status.
int run_handoff(const HandoffOptions& options);

}  // namespace stagewire::bench
