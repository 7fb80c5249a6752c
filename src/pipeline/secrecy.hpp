// Who may call: a secret wherever other hosts can (R16).
#pragma once

#include <string>
#include <vector>

#include "stagewire/pipeline.hpp"

namespace stagewire::pipeline {

/// The key in a file that only its owner may read. Errors do not repeat it.
Result<std::string> read_secret_file(const std::string& file);

/// Gives every connector of the plan that has no secret_key the nodes' key, which is returned: that of the
/// secret file, else the first that a connector has. `permission`: there is none, the master or a stage of
/// this node (`stages`) binds an address that other hosts reach, and `insecure` is not said.
Result<std::string> secure_nodes(DeployPlan& plan, const NodeOptions& node);

/// All stages are children of this process: they get a key of their own when other hosts can reach one, and
/// no connector has any.
Status secure_children(DeployPlan& plan);

}  // namespace stagewire::pipeline
