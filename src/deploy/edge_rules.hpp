// What must hold between edges.
#pragma once

#include <vector>

#include "deploy/edges.hpp"

namespace stagewire::deploy {

/// Sets Edge::connector where the rules hold, and reports where they do not.
void check_edges(std::vector<Edge>& edges, const std::vector<StageNode>& stages,
                 const ConnectorTable& connectors, Diagnostics& diagnostics);

}  // namespace stagewire::deploy
