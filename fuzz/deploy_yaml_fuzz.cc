// Deploy files: any bytes give a plan or at least one error, never both, and the plan's numbers are in their
// ranges.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.hpp"
#include "stagewire/deploy.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  stagewire::DeployOptions options;
  options.backends = {{"shm", true, "memfd"}};
  const auto result = stagewire::parse_deploy(text, "fuzz.yaml", options);
  bool has_error = false;
  for (const auto& one : result.diagnostics) {
    has_error = has_error || one.severity == stagewire::Diagnostic::Severity::error;
    STAGEWIRE_CHECK(!one.to_string().empty() && !one.message.empty(), "a diagnostic without words");
  }
  STAGEWIRE_CHECK(result.plan.has_value() != has_error, "a plan together with errors, or neither");
  if (!result.plan) return 0;
  for (const auto& edge : result.plan->edges) {
    STAGEWIRE_CHECK(edge.port >= 0 && edge.port <= 65535, "a port out of range");
    STAGEWIRE_CHECK(edge.from_stage != edge.to_stage && !edge.route.empty(),
                    "an edge that should have been refused");
  }
  return 0;
}
