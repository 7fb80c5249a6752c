// Edges: gathered from the stages and from `edges`, and checked against each other.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "deploy/connectors.hpp"
#include "deploy/diagnostics.hpp"
#include "deploy/node.hpp"

namespace stagewire::deploy {

/// One mention of an edge in the file.
struct EdgeClaim {
  Place place;
  std::string path;
  ConnectorPtr connector;  ///< nullptr: the edge is named without one
};

struct Edge {
  int from = 0;
  int to = 0;
  std::vector<EdgeClaim> claims;
  ConnectorPtr connector;  ///< what all claims agree on; of a served class. nullptr after an error.
};

/// A stage as far as edges care.
struct StageNode {
  int stage_id = 0;
  const Node* node = nullptr;
  std::string path;
};

/// All edges, ordered by (from, to), with every error about them reported: undefined connectors, stages that
/// are not there, an edge from a stage to itself, ends that disagree, an edge without a connector, a class
/// that Stagewire does not serve, several upstreams, a cycle, a stage whose two connectors cannot be one.
std::vector<Edge> read_edges(const std::vector<StageNode>& stages, const Node* edges,
                             const ConnectorTable& connectors, Diagnostics& diagnostics);

}  // namespace stagewire::deploy
