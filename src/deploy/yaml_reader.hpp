// Text to Node. The only user of the YAML library; its exceptions end here.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "deploy/diagnostics.hpp"
#include "deploy/node.hpp"

namespace stagewire::deploy {

constexpr std::size_t kMaxFileSize = 1024 * 1024;  ///< bytes
constexpr int kMaxDepth = 32;                      ///< nested lists and maps
constexpr std::size_t kMaxNodeCount = 10'000;      ///< values, each use of an alias counted in full

/// Reads exactly one document. nullopt when no tree could be made; duplicate keys are reported and leave a
/// tree, so that the rest can be checked. Refuses: bytes that are not UTF-8 text, tabs that indent, a second
/// document, tags, keys that are not scalars, merge keys (<<), and more than the limits above (aliases
/// included).
std::optional<Node> read_yaml(std::string_view text, const std::string& name, Diagnostics& diagnostics);

/// A value of an override: the same reading; places say `place` whatever the line in the value.
std::optional<Node> read_yaml_value(std::string_view text, const Place& place, const std::string& path,
                                    Diagnostics& diagnostics);

}  // namespace stagewire::deploy
