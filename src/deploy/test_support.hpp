// For this room's tests: plans from text, with backends that do not depend on the machine.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "stagewire/deploy.hpp"

namespace stagewire::deploy {

/// A machine with shared memory and nothing else.
inline DeployOptions shm_only() {
  DeployOptions options;
  options.backends = {{"local", true, "same process"},
                      {"shm", true, "memfd"},
                      {"xgmi", false, "no AMD GPU: /dev/kfd is not there"}};
  return options;
}

inline DeployResult parse(std::string_view text, DeployOptions options = shm_only()) {
  return parse_deploy(text, "test.yaml", options);
}

/// Every diagnostic, one a line.
inline std::string all_text(const DeployResult& result) {
  std::string out;
  for (const Diagnostic& one : result.diagnostics) out += one.to_string() + "\n";
  return out;
}

/// Only the errors.
inline std::string error_text(const DeployResult& result) {
  std::string out;
  for (const Diagnostic& one : result.diagnostics) {
    if (one.severity == Diagnostic::Severity::error) out += one.to_string() + "\n";
  }
  return out;
}

/// Three stages in a row over one connector with this text as its extra (one line, flow style, without
/// braces).
inline std::string speech_yaml(const std::string& extra = "") {
  return "connectors:\n"
         "  speech: {name: MoriTransferEngineConnector, extra: {" +
         extra +
         "}}\n"
         "stages:\n"
         "  - stage_id: 0\n"
         "    output_connectors: {to_stage_1: speech}\n"
         "  - stage_id: 1\n"
         "    input_connectors: {from_stage_0: speech}\n"
         "    output_connectors: {to_stage_2: speech}\n"
         "  - stage_id: 2\n"
         "    input_connectors: {from_stage_1: speech}\n";
}

}  // namespace stagewire::deploy
