#include <algorithm>

#include "doctor/checks.hpp"

namespace stagewire::doctor {

std::vector<Finding> check_backends(const std::vector<BackendReport>& backends) {
  std::vector<Finding> findings;
  bool between_processes = false;
  for (const BackendReport& backend : backends) {
    const auto state = backend.usable ? Finding::State::good : Finding::State::note;
    findings.push_back({.topic = "backends", .name = backend.name, .state = state, .value = backend.reason});
    if (findings.back().value.empty()) findings.back().value = backend.usable ? "usable" : "not usable";
    between_processes |= backend.usable && backend.name == "shm";
  }
  if (between_processes) return findings;
  const auto shm =
      std::find_if(findings.begin(), findings.end(), [](const Finding& f) { return f.name == "shm"; });
  Finding& missing =
      shm != findings.end() ? *shm : findings.emplace_back(Finding{.topic = "backends", .name = "shm"});
  if (missing.value.empty()) missing.value = "not in this build";
  missing.state = Finding::State::problem;
  missing.advice = "processes of one host reach each other by it";
  return findings;
}

}  // namespace stagewire::doctor
