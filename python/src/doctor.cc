#include "stagewire/doctor.hpp"

#include "binding.hpp"

namespace stagewire::python {

void bind_doctor(nb::module_& module) {
  module.def(
      "machine_report",
      [] {
        const MachineReport report = without_gil([] { return machine_report(); });
        nb::list findings;
        for (const Finding& finding : report.findings) {
          const std::string_view state = to_string(finding.state);
          nb::dict entry;
          entry["topic"] = finding.topic;
          entry["name"] = finding.name;
          entry["state"] = std::string(state);
          entry["value"] = finding.value;
          entry["advice"] = finding.advice;
          entry["command"] = finding.command;
          findings.append(entry);
        }
        nb::dict result;
        result["findings"] = findings;
        result["one_host"] = report.one_host;
        return result;
      },
      "What this machine can do for stagewire, what stands in the way, and what to do about it.");
}

}  // namespace stagewire::python
