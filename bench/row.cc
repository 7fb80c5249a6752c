#include "row.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "die.hpp"

namespace stagewire::bench {
namespace {

std::string size_name(std::uint64_t size) {
  if (size >= (1U << 20U) && size % (1U << 20U) == 0) return std::to_string(size >> 20U) + " MiB";
  if (size >= (1U << 10U) && size % (1U << 10U) == 0) return std::to_string(size >> 10U) + " KiB";
  return std::to_string(size) + " B";
}

std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, std::abs(value) >= 1000 ? "%.0f" : "%.3g", value);
  return text;
}

/// Measuring on for nobody would be no use.
void flush_rows() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    die(std::string("writing to the standard output: ") + std::strerror(errno));
}

}  // namespace

void print_header(bool json) {
  if (json) return;
  std::printf("%-16s %10s %12s %12s %9s  %-16s %9s\n", "case", "size", "p50 us", "p99 us", "GB/s",
              "yardstick", "ratio");
}

void print(const Row& row, bool json) {
  if (json) {
    const nlohmann::ordered_json object = {{"bench", row.bench},         {"case", row.name},
                                           {"size", row.size},           {"p50_us", row.p50_us},
                                           {"p99_us", row.p99_us},       {"gb_per_s", row.gb_per_s},
                                           {"yardstick", row.yardstick}, {"ratio", row.ratio}};
    std::printf("%s\n", object.dump().c_str());
  } else {
    std::printf("%-16s %10s %12.2f %12.2f %9.2f  %-16s %9.4g\n", row.name.c_str(),
                size_name(row.size).c_str(), row.p50_us, row.p99_us, row.gb_per_s, row.yardstick.c_str(),
                row.ratio);
  }
  flush_rows();
}

Aim at_least(const Finding& finding, double aim) {
  return {"at least " + number_text(aim), finding.ratio() >= aim};
}
Aim at_most(const Finding& finding, double aim) {
  return {"at most " + number_text(aim), finding.ratio() <= aim};
}

void print_finding_header(bool json) {
  if (json) return;
  std::printf("%-12s %7s  %-20s %10s  %-18s %10s %8s  %s\n", "case", "streams", "figure", "value",
              "yardstick", "its value", "ratio", "aim");
  flush_rows();
}

void print(const Finding& finding, bool json) {
  if (json) {
    nlohmann::ordered_json object = {{"bench", finding.bench},
                                     {"case", finding.name},
                                     {"streams", finding.streams},
                                     {"figure", finding.figure},
                                     {"value", finding.value}};
    if (!finding.yardstick.empty()) {
      object["yardstick"] = finding.yardstick;
      object["yardstick_value"] = finding.yardstick_value;
      object["ratio"] = finding.ratio();
    }
    if (finding.aim) {
      object["aim"] = finding.aim->words;
      object["met"] = finding.aim->met;
    }
    std::printf("%s\n", object.dump().c_str());
  } else {
    const bool compared = !finding.yardstick.empty();
    const std::string aim = finding.aim ? finding.aim->words + (finding.aim->met ? ": met" : ": MISSED") : "";
    std::printf("%-12s %7s  %-20s %10s  %-18s %10s %8s  %s\n", finding.name.c_str(),
                finding.streams == 0 ? "" : std::to_string(finding.streams).c_str(), finding.figure.c_str(),
                number_text(finding.value).c_str(), finding.yardstick.c_str(),
                compared ? number_text(finding.yardstick_value).c_str() : "",
                compared ? number_text(finding.ratio()).c_str() : "", aim.c_str());
  }
  flush_rows();
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
