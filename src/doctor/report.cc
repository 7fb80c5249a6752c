#include <sys/resource.h>

#include <algorithm>
#include <iterator>

#include "doctor/checks.hpp"

namespace stagewire {

std::string_view to_string(Finding::State state) {
  switch (state) {
    case Finding::State::good:
      return "good";
    case Finding::State::note:
      return "note";
    case Finding::State::problem:
      return "problem";
  }
  return "unknown";
}

MachineReport machine_report() {
  MachineReport report;
  const auto add = [&](std::vector<Finding> findings) {
    std::move(findings.begin(), findings.end(), std::back_inserter(report.findings));
  };
  add(doctor::check_backends(probe_backends()));
  add(doctor::check_addresses(control::interface_addresses(), control::default_route_interface()));
  add(doctor::check_limits(doctor::read_limit(RLIMIT_NOFILE), doctor::read_limit(RLIMIT_MEMLOCK)));
  add(doctor::check_memory("", doctor::try_pool()));
  add(doctor::check_kernel());
  add(doctor::check_cpu(""));
  add(doctor::check_libraries(doctor::find_library));
  report.one_host = std::none_of(report.findings.begin(), report.findings.end(), [](const Finding& finding) {
    return finding.state == Finding::State::problem;
  });
  return report;
}

}  // namespace stagewire
