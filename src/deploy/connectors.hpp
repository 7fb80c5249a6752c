// Connector definitions: under `connectors`, or written out where they are used.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "deploy/diagnostics.hpp"
#include "deploy/node.hpp"
#include "deploy/schema.hpp"

namespace stagewire::deploy {

struct ConnectorSpec {
  std::string name;  ///< under `connectors`, or "inline"
  std::string path;  ///< "connectors.speech"
  Place place;
  std::string class_name;  ///< empty when it was missing or wrong (reported)
  bool served = false;     ///< Stagewire has this class
  Values extra;            ///< of a served class, with defaults; refers to the tree
  ConnectorConfig config;  ///< from `extra`; nothing derived from edges yet

  /// Where a value of extra stands, for messages: its own place, or the connector's.
  Place place_of(std::string_view key) const;
  std::string path_of(std::string_view key) const;
};

using ConnectorPtr = std::shared_ptr<const ConnectorSpec>;

/// Reads `{name, extra}`. Always gives a spec, so that references to it are not reported as well.
ConnectorPtr read_connector(const Node& node, const std::string& name, const std::string& path,
                            Diagnostics& diagnostics);

class ConnectorTable {
 public:
  /// Reads `connectors` (nullptr: there is none).
  ConnectorTable(const Node* connectors, Diagnostics& diagnostics);

  /// A reference by name, or a connector written out. Never nullptr: after an error a spec without a class.
  ConnectorPtr resolve(const Node& reference, const std::string& path, Diagnostics& diagnostics) const;
  const std::map<std::string, ConnectorPtr>& by_name() const { return by_name_; }
  /// "; defined: a, b"
  std::string defined() const;

 private:
  std::map<std::string, ConnectorPtr> by_name_;
};

/// Keys of `extra` (and "class") in which the two differ; `directional` ones count only if asked for.
std::vector<std::string> differing_keys(const ConnectorSpec& a, const ConnectorSpec& b,
                                        bool with_directional);

}  // namespace stagewire::deploy
