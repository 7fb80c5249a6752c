// What a bench prints: one row a measurement, as text or as one JSON object a line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stagewire::bench {

struct Row {
  std::string bench;
  std::string name;        ///< the case: the route or scheme, and the load
  std::uint64_t size = 0;  ///< bytes
  double p50_us = 0;
  double p99_us = 0;
  double gb_per_s = 0;      ///< 1e9 bytes a second; 0 = not a matter of this row
  std::string yardstick;    ///< what it is measured against, in the same run
  double ratio = 0;         ///< ours over the yardstick's: above 1 is more bandwidth, or more time
  double chunks_per_s = 0;  ///< where chunks are counted
};

/// Prints at once, so that a long run shows what it has.
void print_header(bool json);
void print(const Row& row, bool json);

/// `fraction` of the values do not exceed it; sorts them. 0 when there are none.
double percentile(std::vector<double>& values, double fraction);
double median(std::vector<double> values);

}  // namespace stagewire::bench
