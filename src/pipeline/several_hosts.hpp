// A pipeline's options, as the master and the nodes of a run over several hosts need them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pipeline/master.hpp"
#include "pipeline/node.hpp"
#include "pipeline/pipelines.hpp"

namespace stagewire::pipeline {

/// Whether these stages can run here, and the others elsewhere.
Status check_node(const NodeOptions& node, const PipelineDefinition& definition,
                  const std::vector<const StagePlan*>& chain);

/// Binds the master's port. The options, from here on, have their `node`.
Result<std::unique_ptr<Master>> open_master(const PipelineOptions& options,
                                            const PipelineDefinition& definition,
                                            const std::vector<const StagePlan*>& chain,
                                            const std::string& secret_key);

/// All but `launches`. May ask the resolver for the master's address.
Result<NodeSetup> node_setup(const PipelineOptions& options, const PipelineDefinition& definition,
                             const std::string& secret_key);

/// What the master tells the nodes of the replay, and how a node takes it over; an error when it cannot, for
/// its trace is another one.
Result<Begin> begin_of(const PipelineOptions& options, const std::string& request_id);
Status take_over(const Begin& begin, PipelineOptions& options);

RunEnd end_of(const Result<PipelineReport>& report);

/// The stage before is where the master says, unless the plan names an address for it that others reach.
void find_through_master(ConnectorConfig& connector);

}  // namespace stagewire::pipeline
