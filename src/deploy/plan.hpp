// The merged tree to a plan: stages, edges, and each stage's connector with every value filled in.
#pragma once

#include <string>
#include <vector>

#include "deploy/diagnostics.hpp"
#include "deploy/node.hpp"
#include "stagewire/deploy.hpp"

namespace stagewire::deploy {

/// `tree` is a map: bases, platform and overrides are applied, environment references replaced. The plan is
/// only meaningful when `diagnostics` has no errors afterwards.
DeployPlan make_plan(const Node& tree, const std::string& file, const std::vector<BackendReport>& backends,
                     Diagnostics& diagnostics);

}  // namespace stagewire::deploy
