// References to the environment in values: $NAME, ${NAME}, ${NAME:-default}; $$ is one dollar sign.
#pragma once

#include <string>
#include <string_view>

#include "deploy/diagnostics.hpp"
#include "deploy/node.hpp"
#include "stagewire/result.hpp"

namespace stagewire::deploy {

struct Expanded {
  std::string text;
  bool changed = false;  ///< at least one reference was replaced
};

/// A dollar sign that begins none of the above stays. `not_found`: an undefined variable without a default.
/// `invalid_argument`: a reference that does not end, or is none.
Result<Expanded> expand_environment(std::string_view text);

/// Expands every scalar below `node` (values, not keys) and marks those that changed or could not be.
void expand_tree(Node& node, const std::string& path, Diagnostics& diagnostics);

}  // namespace stagewire::deploy
