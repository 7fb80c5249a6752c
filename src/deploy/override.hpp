// --set path=value: the same as the value in the file.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "deploy/diagnostics.hpp"
#include "deploy/node.hpp"

namespace stagewire::deploy {

struct Override {
  std::vector<std::string> path;  ///< "connectors", "speech", "extra", "zmq_port"
  Node value;

  /// It decides what is read or merged (base_config, platforms), so it is applied to the file itself. All
  /// others are applied last, over bases and platform.
  bool is_early() const { return path.front() == "base_config" || path.front() == "platforms"; }
};

/// "path=value", the value in YAML; nullopt after reporting what is wrong.
std::optional<Override> parse_override(std::string_view text, Diagnostics& diagnostics);

/// Maps on the way are made when they are missing. Items of a list are named by their stage_id, or by their
/// index from 0 where they have none; an item that is not there is an error.
void apply_override(Node& root, const Override& one, Diagnostics& diagnostics);

}  // namespace stagewire::deploy
