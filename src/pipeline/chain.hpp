// A plan's stages in the order in which chunks pass through them.
#pragma once

#include <vector>

#include "pipeline/pipelines.hpp"
#include "stagewire/deploy.hpp"

namespace stagewire::pipeline {

/// First stage first; points into the plan. An error says what in the plan the pipeline cannot run: the
/// stages must be as many as it has, joined one after the other, one process each, and stream unless it is a
/// replay.
Result<std::vector<const StagePlan*>> chain_of(const DeployPlan& plan, const PipelineDefinition& definition);

/// The edge between two stages of such a chain.
const EdgePlan& edge_between(const DeployPlan& plan, int from_stage, int to_stage);

}  // namespace stagewire::pipeline
