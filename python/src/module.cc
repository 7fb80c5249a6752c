#include "binding.hpp"
#include "stagewire/deploy.hpp"
#include "stagewire/log.hpp"

namespace stagewire::python {
namespace {

LogLevel level_of(std::string_view name) {
  const std::pair<std::string_view, LogLevel> levels[] = {{"debug", LogLevel::debug},
                                                          {"info", LogLevel::info},
                                                          {"warning", LogLevel::warning},
                                                          {"error", LogLevel::error},
                                                          {"off", LogLevel::off}};
  for (const auto& [known, level] : levels) {
    if (known == name) return level;
  }
  throw Raised(Error(ErrorCode::invalid_argument,
                     "log level " + std::string(name) + " is none of debug, info, warning, error, off"));
}

}  // namespace

NB_MODULE(_native, module) {
  // At exit the interpreter leaves objects behind whose owners are globals; the system takes them.
  nb::set_leak_warnings(false);
  module.attr("__version__") = STAGEWIRE_VERSION;
  bind_errors(module);
  bind_arrays(module);
  bind_payload(module);
  bind_connector(module);
  bind_chunks(module);
  bind_engine(module);
  bind_doctor(module);
  bind_exit(module);
  module.def(
      "parse_size", [](std::string_view text) { return value_or_raise(parse_size(text)); }, nb::arg("text"),
      "Bytes of \"512MiB\", \"512MB\", \"0.5GiB\" or plain bytes.");
  module.def(
      "set_log_level", [](std::string_view level) { set_log_level(level_of(level)); }, nb::arg("level"),
      "The lowest level that the library writes to stderr: debug, info, warning, error or off.");
}

}  // namespace stagewire::python
