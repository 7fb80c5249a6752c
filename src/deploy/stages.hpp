// Stage entries: what Stagewire reads of them, and what it keeps for the engine.
#pragma once

#include <string>
#include <vector>

#include "deploy/diagnostics.hpp"
#include "deploy/node.hpp"
#include "stagewire/deploy.hpp"

namespace stagewire::deploy {

struct StageEntry {
  StagePlan plan;              ///< without connector and chunk options
  const Node* node = nullptr;  ///< borrowed from the tree
  std::string path;            ///< "stages.1"
  int tensor_parallel_size = 1;
};

/// Ordered by stage_id; entries without a readable stage_id, and second ones with the same, are reported and
/// left out.
std::vector<StageEntry> read_stages(const Node* stages, Diagnostics& diagnostics);

}  // namespace stagewire::deploy
