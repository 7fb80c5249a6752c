// stagewire doctor: prints what machine_report() found.
#include "stagewire/doctor.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/commands.hpp"

namespace stagewire::cli {
namespace {

const char* mark(Finding::State state) {
  switch (state) {
    case Finding::State::good:
      return "ok  ";
    case Finding::State::note:
      return "note";
    case Finding::State::problem:
      return "FAIL";
  }
  return "?";
}

void print_text(const MachineReport& report) {
  std::string topic;
  for (const Finding& finding : report.findings) {
    if (finding.topic != topic) {
      topic = finding.topic;
      std::printf("%s\n", topic.c_str());
    }
    std::printf("  %s  %-16s %s\n", mark(finding.state), finding.name.c_str(), finding.value.c_str());
    if (!finding.advice.empty()) std::printf("        %s\n", finding.advice.c_str());
    if (!finding.command.empty()) std::printf("        to change it: %s\n", finding.command.c_str());
  }
  std::printf("\n%s\n", report.one_host ? "Pipelines on this host can run."
                                        : "Pipelines on this host cannot run: see FAIL.");
}

void print_json(const MachineReport& report) {
  nlohmann::json findings = nlohmann::json::array();
  for (const Finding& finding : report.findings) {
    findings.push_back({{"topic", finding.topic},
                        {"name", finding.name},
                        {"state", to_string(finding.state)},
                        {"value", finding.value},
                        {"advice", finding.advice},
                        {"command", finding.command}});
  }
  const nlohmann::json root{{"one_host", report.one_host}, {"findings", findings}};
  std::puts(root.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

}  // namespace

int doctor_command(int argc, char** argv) {
  CLI::App app("What this machine can do for stagewire, and what to change.", "stagewire doctor");
  std::string format = "text";
  app.add_option("--format", format, "text or json")->check(CLI::IsMember({"text", "json"}));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsageError;
  }
  const MachineReport report = machine_report();
  if (format == "json") {
    print_json(report);
  } else {
    print_text(report);
  }
  return report.one_host ? 0 : kRunError;
}

}  // namespace stagewire::cli
