// What a bench prints: one row a measurement, as text or as one JSON object a line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stagewire::bench {

struct Row {
  std::string bench;
  std::string name;        ///< the case: the route or scheme, and the load
  std::uint64_t size = 0;  ///< bytes
  double p50_us = 0;
  double p99_us = 0;
  double gb_per_s = 0;    ///< 1e9 bytes a second; 0 = not a matter of this row
  std::string yardstick;  ///< what it is measured against, in the same run
  double ratio = 0;       ///< ours over the yardstick's: above 1 is more bandwidth, or more time
};

/// What a figure is to be.
struct Aim {
  std::string words;
  bool met = false;
};

/// A figure beside the same one of its yardstick.
struct Finding {
  std::string bench;
  std::string name;           ///< the case
  std::uint32_t streams = 0;  ///< 0 = not a matter of this one
  std::string figure;         ///< what is measured, with its unit
  double value = 0;
  std::string yardstick;       ///< empty = there was none
  double yardstick_value = 0;  ///< the same figure of it
  std::optional<Aim> aim;
  double ratio() const { return value / yardstick_value; }
};
/// Of the ratio.
Aim at_least(const Finding& finding, double aim);
Aim at_most(const Finding& finding, double aim);

/// Prints at once, so that a long run shows what it has.
void print_header(bool json);
void print(const Row& row, bool json);
void print_finding_header(bool json);
void print(const Finding& finding, bool json);

/// `fraction` of the values do not exceed it; sorts them. 0 when there are none.
double percentile(std::vector<double>& values, double fraction);
double median(std::vector<double> values);

}  // namespace stagewire::bench
