// The schema of 2025 (`stage_args`, `runtime.connectors`, `runtime.edges`) in today's words.
#pragma once

#include "deploy/diagnostics.hpp"
#include "deploy/node.hpp"

namespace stagewire::deploy {

/// Moves what stands in the old places to today's and notes how to write it. A file that mixes both is an
/// error.
void modernise(Node& root, Diagnostics& diagnostics);

}  // namespace stagewire::deploy
