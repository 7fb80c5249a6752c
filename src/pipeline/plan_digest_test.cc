#include "pipeline/plan_digest.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "pipeline/several_hosts.hpp"
#include "support/temp_dir.hpp"
#include "support/wav_bytes.hpp"

namespace stagewire::pipeline {
namespace {

using ::testing::HasSubstr;

DeployPlan plan() {
  DeployPlan plan;
  for (int id = 0; id < 2; ++id) {
    StagePlan stage;
    stage.stage_id = id;
    stage.connector.emplace();
    stage.chunk_options["codec_chunk_frames"] = 25;
    plan.stages.push_back(stage);
  }
  plan.edges.push_back({0, 1, "c", "MoriTransferEngineConnector", "auto", 0, ""});
  return plan;
}

TEST(PlanDigest, what_belongs_to_a_host_may_differ) {
  DeployPlan other = plan();
  other.file = "elsewhere.yaml";
  ConnectorConfig& connector = *other.stages[1].connector;
  connector.host = "10.0.0.2";
  connector.sender_host = "10.0.0.1";
  connector.zmq_port = 9;
  connector.backend_settings["device_name"] = "mlx5_1";
  connector.memory_pool_size = 4096;
  other.stages[1].env["A"] = "b";
  other.edges[0].host = "10.0.0.1";
  EXPECT_EQ(plan_digest(other), plan_digest(plan()));
}

TEST(PlanDigest, what_stages_do_together_may_not) {
  const std::pair<const char*, std::function<void(DeployPlan&)>> kChanges[] = {
      {"stage 1", [](DeployPlan& p) { p.stages[1].chunk_options["codec_chunk_frames"] = 26; }},
      {"stage 0", [](DeployPlan& p) { p.stages[0].async_chunk = false; }},
      {"stage 0", [](DeployPlan& p) { p.stages[0].connector->backend_type = "rdma"; }},
      {"stage 0", [](DeployPlan& p) { p.stages[0].connector->secret_key = "k"; }},
      {"the edges", [](DeployPlan& p) { p.edges[0].to_stage = 2; }},
      {"the edges", [](DeployPlan& p) { p.async_chunk = false; }},
  };
  for (const auto& [topic, change] : kChanges) {
    DeployPlan changed = plan();
    change(changed);
    const auto digest = plan_digest(changed);
    for (const auto& [name, value] : plan_digest(plan())) EXPECT_EQ(value != digest.at(name), name == topic);
  }
}

TEST(PlanDigest, a_secret_is_not_in_it) {
  DeployPlan one = plan();
  DeployPlan other = plan();
  one.stages[0].connector->secret_key = "one";
  other.stages[0].connector->secret_key = "other";
  EXPECT_EQ(plan_digest(one), plan_digest(other));
}

TEST(ReplayTerms, a_trace_counts_by_its_contents) {
  const test::TempDir dir;
  test::write_file(dir.file("a"), "same");
  test::write_file(dir.file("b"), "same");
  test::write_file(dir.file("c"), "other");
  PipelineOptions options;
  options.replay.trace = dir.file("a");
  const auto a = replay_terms(options);
  options.replay.trace = dir.file("b");
  const auto b = replay_terms(options);
  options.replay.trace = dir.file("c");
  const auto c = replay_terms(options);
  ASSERT_TRUE(a.ok() && b.ok() && c.ok());
  EXPECT_EQ(*a, *b);
  EXPECT_NE(*a, *c);
  options.replay.trace = dir.file("none");
  EXPECT_EQ(replay_terms(options).error().code(), ErrorCode::not_found);
}

TEST(TakeOver, a_node_does_as_the_master_says_if_it_has_the_same_trace) {
  const test::TempDir dir;
  test::write_file(dir.file("trace"), "steps");
  PipelineOptions master;
  master.replay.requests = 7;
  master.replay.trace = dir.file("trace");
  master.rate = Rate::real;
  master.speed = 2;
  master.timeout = Milliseconds(1234);
  const auto begin = begin_of(master, "serve-1");
  ASSERT_TRUE(begin.ok());

  PipelineOptions node;
  ASSERT_TRUE(take_over(*begin, node).ok());
  EXPECT_EQ(node.replay.requests, 7U);
  EXPECT_EQ(node.replay.trace, dir.file("trace"));
  EXPECT_EQ(node.rate, Rate::real);
  EXPECT_EQ(node.timeout, Milliseconds(1234));

  test::write_file(dir.file("own"), "steps");
  node.replay.trace = dir.file("own");
  ASSERT_TRUE(take_over(*begin, node).ok());
  EXPECT_EQ(node.replay.trace, dir.file("own"));
  test::write_file(dir.file("own"), "others");
  EXPECT_THAT(take_over(*begin, node).error().message(), HasSubstr("another one than the master's"));
  std::filesystem::remove(dir.file("trace"));
  node.replay.trace = "";
  EXPECT_THAT(take_over(*begin, node).error().message(), HasSubstr("which every node needs"));

  Begin nonsense;
  nonsense.speed = 0;
  nonsense.timeout_ms = 1;
  EXPECT_EQ(take_over(nonsense, node).error().code(), ErrorCode::corrupt);
}

TEST(FindThroughMaster, what_the_master_registered_counts_unless_the_plan_names_a_way) {
  for (const char* open : {"", "auto", "127.0.0.1", "::1"}) {
    ConnectorConfig connector;
    connector.sender_host = open;
    connector.sender_zmq_port = 50051;
    find_through_master(connector);
    EXPECT_EQ(connector.sender_host, "auto");
    EXPECT_EQ(connector.sender_zmq_port, 0);
  }
  ConnectorConfig connector;
  connector.sender_host = "10.9.0.1";
  connector.sender_zmq_port = 50051;
  find_through_master(connector);
  EXPECT_EQ(connector.sender_host, "10.9.0.1");
  EXPECT_EQ(connector.sender_zmq_port, 50051);
}

}  // namespace
}  // namespace stagewire::pipeline
