// From a sound file to a plan: roles, ports, upstreams, what is kept for the engine.
#include <gtest/gtest.h>

#include "deploy/test_support.hpp"

namespace stagewire::deploy {
namespace {

TEST(Plan, speech_file_of_the_demo_is_sound) {
  auto result = load_deploy(STAGEWIRE_SOURCE_DIR "/deploy/speech_intranode.yaml", shm_only());
  ASSERT_TRUE(result.plan) << all_text(result);
  EXPECT_EQ(all_text(result), "");
  const DeployPlan& plan = *result.plan;
  EXPECT_TRUE(plan.async_chunk);
  ASSERT_EQ(plan.stages.size(), 3U);
  const ConnectorConfig& middle = *plan.stages[1].connector;
  EXPECT_EQ(middle.role, Role::dual);
  EXPECT_EQ(middle.zmq_port, 0);
  EXPECT_EQ(middle.sender_zmq_port, 0) << "the pipeline finds it";
  EXPECT_EQ(middle.sender_host, "127.0.0.1");
  EXPECT_EQ(middle.memory_pool_size, 64ULL << 20U);
  std::map<std::string, std::int64_t> chunks = {
      {"codec_chunk_frames", 25}, {"codec_left_context_frames", 0}, {"initial_codec_chunk_frames", 5}};
  EXPECT_EQ(plan.stages[0].chunk_options, chunks);
}

TEST(Plan, R12_rule_a_numbers_ports_by_stage) {
  auto result = parse(speech_yaml("host: auto"));
  ASSERT_TRUE(result.plan) << all_text(result);
  const auto& stages = result.plan->stages;
  EXPECT_EQ(stages[0].connector->role, Role::sender);
  EXPECT_EQ(stages[0].connector->zmq_port, 50051);
  EXPECT_EQ(stages[0].connector->sender_zmq_port, 0);
  EXPECT_EQ(stages[0].connector->sender_host, "");
  EXPECT_EQ(stages[1].connector->role, Role::dual);
  EXPECT_EQ(stages[1].connector->zmq_port, 50052);
  EXPECT_EQ(stages[1].connector->sender_zmq_port, 50051);
  EXPECT_EQ(stages[1].connector->sender_host, "auto");
  EXPECT_EQ(stages[2].connector->role, Role::receiver);
  EXPECT_EQ(stages[2].connector->zmq_port, 0);
  EXPECT_EQ(stages[2].connector->sender_zmq_port, 50052);
  ASSERT_EQ(result.plan->edges.size(), 2U);
  EXPECT_EQ(result.plan->edges[1].port, 50052);
  EXPECT_EQ(result.plan->edges[1].route, "shm (auto: the best of shm here)");
}

}  // namespace
}  // namespace stagewire::deploy
