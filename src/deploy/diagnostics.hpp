// Collects all that is wrong with a file, so that one run shows everything.
#pragma once

#include <string>
#include <vector>

#include "base/text.hpp"
#include "deploy/node.hpp"
#include "stagewire/deploy.hpp"

namespace stagewire::deploy {

/// "connectors" + "speech" = "connectors.speech": also what --set takes.
std::string join_path(const std::string& path, std::string_view key);
/// An item of a list by its stage_id where it has one ("stages.2"), else by its index from 0 ("edges.0").
std::string item_path(const std::string& path, std::size_t index, const Node& item);

class Diagnostics {
 public:
  template <typename... Parts>
  void error(const Place& place, const std::string& path, const Parts&... parts) {
    add(Diagnostic::Severity::error, place, path, base::text(parts...));
  }
  template <typename... Parts>
  void warning(const Place& place, const std::string& path, const Parts&... parts) {
    add(Diagnostic::Severity::warning, place, path, base::text(parts...));
  }
  template <typename... Parts>
  void note(const Place& place, const std::string& path, const Parts&... parts) {
    add(Diagnostic::Severity::note, place, path, base::text(parts...));
  }
  bool has_errors() const { return error_count_ > 0; }
  /// Errors, then warnings, then notes, each in file order. Beyond kMaxShown of a kind, one line says how
  /// many more.
  std::vector<Diagnostic> sorted() const;

  static constexpr std::size_t kMaxShown = 100;

 private:
  void add(Diagnostic::Severity severity, const Place& place, const std::string& path, std::string message);

  std::vector<Diagnostic> list_;
  std::vector<std::string> files_;  ///< in the order of their first diagnostic
  std::size_t error_count_ = 0;
  std::size_t left_out_ = 0;
};

}  // namespace stagewire::deploy
