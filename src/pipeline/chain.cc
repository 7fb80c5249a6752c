#include "pipeline/chain.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/text.hpp"

namespace stagewire::pipeline {
namespace {

template <typename... Parts>
Error cannot_run(const PipelineDefinition& definition, const Parts&... parts) {
  return base::error(ErrorCode::invalid_argument, "the pipeline \"", definition.name, "\" ", parts...);
}

Status check_stage(const StagePlan& stage, bool pipeline_streams, const PipelineDefinition& definition) {
  if (stage.num_replicas != 1) {
    return cannot_run(definition, "runs one process a stage, stage ", stage.stage_id, " has num_replicas ",
                      stage.num_replicas, ": set it to 1");
  }
  if (!definition.is_replay() && (!stage.async_chunk || !pipeline_streams)) {
    return cannot_run(definition, "only streams, but async_chunk is false for stage ", stage.stage_id,
                      ": set it to true");
  }
  if (Status status = definition.check_options(stage.chunk_options); !status.ok()) {
    return status.error().with_context(base::text("stage ", stage.stage_id));
  }
  return {};
}

const StagePlan* find_stage(const DeployPlan& plan, int stage_id) {
  const auto found = std::find_if(plan.stages.begin(), plan.stages.end(),
                                  [&](const StagePlan& stage) { return stage.stage_id == stage_id; });
  return found == plan.stages.end() ? nullptr : &*found;
}

/// The only one that `wanted` is true for; nullptr when there is none or several.
template <typename Container, typename Predicate>
auto find_only(const Container& all, Predicate wanted) -> decltype(&*all.begin()) {
  const auto first = std::find_if(all.begin(), all.end(), wanted);
  if (first == all.end() || std::find_if(std::next(first), all.end(), wanted) != all.end()) return nullptr;
  return &*first;
}

}  // namespace

Result<std::vector<const StagePlan*>> chain_of(const DeployPlan& plan, const PipelineDefinition& definition) {
  if (plan.stages.size() != definition.stages.size()) {
    return cannot_run(definition, "has ", definition.stages.size(), " stages, the plan has ",
                      plan.stages.size());
  }
  for (const StagePlan& stage : plan.stages) {
    if (Status status = check_stage(stage, plan.async_chunk, definition); !status.ok()) return status.error();
  }
  const auto has_no_input = [&](const StagePlan& stage) {
    return std::none_of(plan.edges.begin(), plan.edges.end(),
                        [&](const EdgePlan& edge) { return edge.to_stage == stage.stage_id; });
  };
  std::vector<const StagePlan*> chain;
  const StagePlan* next = find_only(plan.stages, has_no_input);
  while (next != nullptr && chain.size() < plan.stages.size()) {
    chain.push_back(next);
    const EdgePlan* edge =
        find_only(plan.edges, [&](const EdgePlan& e) { return e.from_stage == chain.back()->stage_id; });
    next = edge != nullptr ? find_stage(plan, edge->to_stage) : nullptr;
  }
  if (chain.size() != plan.stages.size() || plan.edges.size() + 1 != chain.size()) {
    return cannot_run(definition, "is a chain: each of its ", definition.stages.size(),
                      " stages but the last needs one edge, to the next one; the plan has ",
                      plan.edges.size(), " edges");
  }
  for (const StagePlan* stage : chain)
    STAGEWIRE_CHECK(stage->connector.has_value(), "a stage with an edge has a connector");
  return chain;
}

const EdgePlan& edge_between(const DeployPlan& plan, int from_stage, int to_stage) {
  const auto found = std::find_if(plan.edges.begin(), plan.edges.end(), [&](const EdgePlan& edge) {
    return edge.from_stage == from_stage && edge.to_stage == to_stage;
  });
  STAGEWIRE_CHECK(found != plan.edges.end(), "the stages of a chain are joined by edges");
  return *found;
}

}  // namespace stagewire::pipeline
