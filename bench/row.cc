#include "row.hpp"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace stagewire::bench {
namespace {

std::string size_name(std::uint64_t size) {
  if (size >= (1U << 20U) && size % (1U << 20U) == 0) return std::to_string(size >> 20U) + " MiB";
  if (size >= (1U << 10U) && size % (1U << 10U) == 0) return std::to_string(size >> 10U) + " KiB";
  return std::to_string(size) + " B";
}

}  // namespace

void print_header(bool json) {
  if (json) return;
  std::printf("%-16s %10s %12s %12s %9s  %-16s %9s\n", "case", "size", "p50 us", "p99 us", "GB/s",
              "yardstick", "ratio");
}

void print(const Row& row, bool json) {
  if (json) {
    nlohmann::ordered_json object = {{"bench", row.bench},         {"case", row.name},
                                     {"size", row.size},           {"p50_us", row.p50_us},
                                     {"p99_us", row.p99_us},       {"gb_per_s", row.gb_per_s},
                                     {"yardstick", row.yardstick}, {"ratio", row.ratio}};
    if (row.chunks_per_s > 0) object["chunks_per_s"] = row.chunks_per_s;
    std::printf("%s\n", object.dump().c_str());
  } else {
    std::printf("%-16s %10s %12.2f %12.2f %9.2f  %-16s %9.4g\n", row.name.c_str(),
                size_name(row.size).c_str(), row.p50_us, row.p99_us, row.gb_per_s, row.yardstick.c_str(),
                row.ratio);
  }
  std::fflush(stdout);
}

double percentile(std::vector<double>& values, double fraction) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto index = static_cast<std::size_t>(fraction * static_cast<double>(values.size() - 1));
  return values[index];
}

double median(std::vector<double> values) {
  return percentile(values, 0.5);
}

}  // namespace stagewire::bench
