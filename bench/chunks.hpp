// stagewire bench chunks: streams of decode chunks from one stage to the next, two processes on one host.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stagewire::bench {

struct ChunksOptions {
  bool json = false;
  int rounds = 5;  ///< of each measurement, taken in turn with its yardstick; medians are printed
  double seconds_per_round = 0.6;      ///< about
  std::uint32_t chunks = 1'000'000;    ///< of the case memory
  std::vector<std::string> cases;      ///< empty = all but memory
  std::vector<std::string> schemes;    ///< empty = both
  std::vector<std::uint32_t> streams;  ///< of the cases rate and paced; empty = 1, 16, 64
};

/// Exit status.
int run_chunks(const ChunksOptions& options);

}  // namespace stagewire::bench
