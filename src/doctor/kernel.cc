#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>

#include "base/text.hpp"
#include "doctor/checks.hpp"

namespace stagewire::doctor {

std::vector<Finding> check_kernel() {
  utsname name{};
  uname(&name);  // fails only for a bad pointer
  return {{.topic = "kernel",
           .name = "release",
           .value = base::text(name.sysname, ' ', name.release, ' ', name.machine)}};
}

std::vector<Finding> check_cpu(const std::string& root) {
  std::ifstream in(root + "/proc/cpuinfo");
  std::string line;
  std::string model = "unknown";
  std::size_t cores = 0;
  std::string found;
  while (std::getline(in, line)) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string value = colon + 2 < line.size() ? line.substr(colon + 2) : "";
    if (line.starts_with("processor")) ++cores;
    if (line.starts_with("model name")) model = value;
    if (!line.starts_with("flags") || !found.empty()) continue;
    std::istringstream words(value);
    for (std::string word; words >> word;) {
      constexpr std::array kOfInterest{"sse2", "avx2", "avx512f", "erms", "constant_tsc"};
      if (std::find(kOfInterest.begin(), kOfInterest.end(), word) != kOfInterest.end()) found += ' ' + word;
    }
  }
  Finding processor{.topic = "cpu", .name = "processor", .value = base::text(cores, " x ", model)};
  if (cores == 1) {
    processor.state = Finding::State::note;
    processor.advice = "with one core both ends of an edge take turns: wait: block suits it better than spin";
  }
  return {processor,
          {.topic = "cpu", .name = "flags", .value = found.empty() ? "none of interest" : found.substr(1)}};
}

}  // namespace stagewire::doctor
