#include "pipeline/chain.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stagewire::pipeline {
namespace {

using ::testing::HasSubstr;

Status check_options(const std::map<std::string, std::int64_t>& options) {
  return options.count("bad") == 0 ? Status() : Error(ErrorCode::invalid_argument, "bad is no option");
}

constexpr std::array kStages{StageDefinition{"a", nullptr}, StageDefinition{"b", nullptr},
                             StageDefinition{"c", nullptr}};
constexpr PipelineDefinition kDefinition{"abc", kStages, nullptr, check_options};

/// Stages with these ids, joined by these edges.
DeployPlan plan_of(const std::vector<int>& stage_ids, const std::vector<std::pair<int, int>>& edges) {
  DeployPlan plan;
  for (const int id : stage_ids) {
    StagePlan stage;
    stage.stage_id = id;
    stage.connector = ConnectorConfig{};
    plan.stages.push_back(stage);
  }
  for (const auto& [from, to] : edges) {
    EdgePlan edge;
    edge.from_stage = from;
    edge.to_stage = to;
    plan.edges.push_back(edge);
  }
  return plan;
}

void expect_refused(const DeployPlan& plan, const std::string& words) {
  const auto chain = chain_of(plan, kDefinition);
  ASSERT_FALSE(chain.ok()) << words;
  EXPECT_EQ(chain.error().code(), ErrorCode::invalid_argument);
  EXPECT_THAT(chain.error().message(), HasSubstr(words));
}

TEST(Chain, follows_the_edges_whatever_the_numbers) {
  const DeployPlan plan = plan_of({0, 5, 7}, {{5, 0}, {7, 5}});
  const auto chain = chain_of(plan, kDefinition);
  ASSERT_TRUE(chain.ok()) << chain.error().to_string();
  std::vector<int> ids;
  for (const StagePlan* stage : *chain) ids.push_back(stage->stage_id);
  EXPECT_THAT(ids, ::testing::ElementsAre(7, 5, 0));
  EXPECT_EQ(&edge_between(plan, 7, 5), &plan.edges[1]);
}

TEST(Chain, refuses_every_other_shape) {
  expect_refused(plan_of({0, 1}, {{0, 1}}), "has 3 stages, the plan has 2");
  expect_refused(plan_of({0, 1, 2}, {{0, 1}}), "is a chain");
  expect_refused(plan_of({0, 1, 2}, {{0, 1}, {0, 2}}), "is a chain");
  expect_refused(plan_of({0, 1, 2}, {{0, 2}, {1, 2}}), "is a chain");
  expect_refused(plan_of({0, 1, 2}, {{0, 1}, {1, 2}, {2, 0}}), "is a chain");
  expect_refused(plan_of({0, 1, 2}, {{0, 1}, {1, 2}, {0, 2}}), "is a chain");
  expect_refused(plan_of({0, 1, 2}, {{1, 2}, {2, 1}}), "is a chain");
}

TEST(Chain, refuses_what_the_pipeline_does_not_do) {
  DeployPlan plan = plan_of({0, 1, 2}, {{0, 1}, {1, 2}});
  plan.stages[1].num_replicas = 2;
  expect_refused(plan, "stage 1 has num_replicas 2: set it to 1");
  plan.stages[1].num_replicas = 1;
  plan.stages[2].async_chunk = false;
  expect_refused(plan, "async_chunk is false for stage 2: set it to true");
  plan.stages[2].async_chunk = true;
  plan.async_chunk = false;
  expect_refused(plan, "async_chunk is false");
  plan.async_chunk = true;
  plan.stages[1].chunk_options = {{"bad", 1}};
  expect_refused(plan, "stage 1: bad is no option");
}

TEST(Chain, a_replay_also_hands_over_whole_results) {
  DeployPlan plan = plan_of({0, 1, 2}, {{0, 1}, {1, 2}});
  plan.async_chunk = false;
  for (StagePlan& stage : plan.stages) stage.async_chunk = false;
  for (const char* name : {"qwen3_omni_moe", "qwen2_5_omni"}) {
    const auto definition = find_pipeline(name);
    ASSERT_TRUE(definition.ok()) << definition.error().to_string();
    EXPECT_TRUE(is_replay(name));
    EXPECT_TRUE(chain_of(plan, **definition).ok());
  }
}

TEST(Pipelines, a_model_is_known_by_the_last_part_of_its_name) {
  EXPECT_EQ(*pipeline_of_model("Qwen/Qwen3-Omni-30B-A3B-Instruct"), "qwen3_omni_moe");
  EXPECT_EQ(*pipeline_of_model("/models/Qwen2.5-Omni-7B/"), "qwen2_5_omni");
  EXPECT_EQ(*pipeline_of_model("Qwen2.5-Omni-7B"), "qwen2_5_omni");
  for (const char* name : {"", "/", "Qwen/Qwen3-Omni-30B-A3B-Thinking", "Qwen2.5-Omni-7B-AWQ"}) {
    const auto unknown = pipeline_of_model(name);
    ASSERT_FALSE(unknown.ok()) << name;
    EXPECT_THAT(unknown.error().message(),
                HasSubstr("there are: Qwen/Qwen3-Omni-30B-A3B-Instruct, Qwen/Qwen2.5-Omni-7B"));
  }
}

TEST(Pipelines, speech_is_the_default_and_unknown_ones_are_refused_with_the_list) {
  EXPECT_EQ((*find_pipeline(""))->name, "speech");
  EXPECT_EQ(*find_pipeline("speech"), *find_pipeline(""));
  EXPECT_FALSE(is_replay(""));
  EXPECT_FALSE(is_replay("bagel"));
  const auto unknown = find_pipeline("bagel");
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(unknown.error().message(),
              HasSubstr("set `pipeline` to one of: speech, qwen3_omni_moe, qwen2_5_omni"));
}

}  // namespace
}  // namespace stagewire::pipeline
