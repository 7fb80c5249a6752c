// stagewire bench rdma: reads and writes between two engines over RDMA, beside perftest on the same device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stagewire::bench {

struct RdmaOptions {
  bool json = false;
  int rounds = 5;                    ///< of each measurement, in turn with its yardstick; medians are printed
  double seconds_per_round = 0.3;    ///< about
  std::string device;                ///< one; empty = the first
  std::vector<std::uint64_t> sizes;  ///< bytes; empty = 8 to 64 MiB, in steps of 8
  std::vector<std::uint32_t> batches;   ///< pieces of one transfer; empty = 1 and 128
  std::vector<std::string> operations;  ///< read, write; empty = write
};

/// Exit status.
int run_rdma(const RdmaOptions& options);

}  // namespace stagewire::bench
