// perftest's programs (Debian package perftest) as the yardstick of a bench.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace stagewire::bench {

/// How perftest is run: both of its ends on this machine, over one device.
struct PerftestRun {
  std::string program;  ///< "ib_write_bw", "ib_read_bw", "ib_write_lat", "ib_read_lat"
  std::string device;
  std::uint64_t size = 0;
  std::uint64_t iterations = 0;
};

/// Whether its programs are there.
bool has_perftest();
/// What it measures: MB/s (1e6 bytes) on average, or microseconds (the median); nullopt when it failed, with
/// its last words on standard error.
std::optional<double> run_perftest(const PerftestRun& run);

}  // namespace stagewire::bench
