#include "process_cost.hpp"

#include <sys/resource.h>

#include <fstream>
#include <string>

namespace stagewire::bench {

double process_cpu_us() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto microseconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_usec);
  };
  return microseconds(usage.ru_utime) + microseconds(usage.ru_stime);
}

double resident_bytes() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  for (std::string word; rollup >> word;) {
    if (word != "Pss:") continue;
    double kilobytes = 0;
    rollup >> kilobytes;
    return kilobytes * 1024;
  }
  return 0;
}

}  // namespace stagewire::bench
