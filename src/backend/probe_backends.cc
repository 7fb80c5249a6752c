// Tries every backend of this build on this machine; what `stagewire doctor` prints.
#include "backend/builtin_backends.hpp"
#include "stagewire/engine.hpp"

namespace stagewire {

std::vector<BackendReport> probe_backends() {
  std::vector<BackendReport> reports;
  BackendOptions options;
  options.engine_key = "probe";
  for (const backend::BuiltinBackend& known : backend::builtin_backends()) {
    const auto created = backend::create_backend(known.name, options);
    reports.push_back({std::string(known.name), created.ok(),
                       created.ok() ? (*created)->describe() : created.error().to_string()});
  }
  return reports;
}

}  // namespace stagewire
