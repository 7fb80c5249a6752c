// From a sound file to a plan: roles, ports, upstreams, what is kept for the engine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "deploy/ports.hpp"
#include "deploy/test_support.hpp"

namespace stagewire::deploy {
namespace {

using testing::HasSubstr;

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

TEST(Plan, the_window_of_active_streams_is_part_of_it) {
  EXPECT_EQ(parse(speech_yaml("")).plan->active_stream_window, 0U);
  const auto result = parse(speech_yaml("") + "active_stream_window: 7\n");
  ASSERT_TRUE(result.plan) << all_text(result);
  EXPECT_EQ(result.plan->active_stream_window, 7U);
  EXPECT_EQ(result.plan->engine_options.count("active_stream_window"), 0U);
  DeployOptions options = shm_only();
  options.overrides = {"active_stream_window=2"};
  EXPECT_EQ(parse_deploy(speech_yaml(""), "test.yaml", options).plan->active_stream_window, 2U);
  EXPECT_FALSE(parse(speech_yaml("") + "active_stream_window: -1\n").plan);
}

TEST(Plan, R12_rule_a_numbers_ports_by_stage) {
  auto result = parse(speech_yaml("host: AUTO"));
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
  EXPECT_EQ(result.plan->edges[1].host, "auto");
  EXPECT_EQ(result.plan->edges[1].route, "shm (auto: the best of shm here)");
}

TEST(Plan, R12_rule_b_adds_purpose_replica_and_rank) {
  EXPECT_EQ(*purpose_port(50051, Purpose::request_forwarding, 0, 0, 0), 50051);
  EXPECT_EQ(*purpose_port(50051, Purpose::request_forwarding, 0, 0, 1), 50052);
  EXPECT_EQ(*purpose_port(50051, Purpose::kv_transfer, 0, 0, 1), 50152);
  EXPECT_EQ(*purpose_port(50051, Purpose::orchestrator, 0, 0, 15), 50266);
  EXPECT_EQ(*purpose_port(50051, Purpose::kv_transfer, 2, 3, 1), 50051 + 100 + 2 * 1024 + 3 * 16 + 1);
  EXPECT_EQ(*purpose_port(0, Purpose::kv_transfer, 2, 3, 1), 0);
  EXPECT_FALSE(purpose_port(50051, Purpose::kv_transfer, 0, 0, 16));
  EXPECT_FALSE(purpose_port(50051, Purpose::kv_transfer, -1, 0, 0));
  EXPECT_FALSE(purpose_port(50051, Purpose::kv_transfer, 0, -1, 0));
  EXPECT_FALSE(purpose_port(50051, Purpose::kv_transfer, 2'000'000, 0, 0));
  EXPECT_FALSE(purpose_port(65535, Purpose::request_forwarding, 0, 0, 1));
}

TEST(Plan, R12_rule_b_is_chosen_by_port_rule) {
  unsetenv("VLLM_OMNI_REPLICA_ID");
  auto first = parse(speech_yaml("port_rule: kv_transfer"));
  ASSERT_TRUE(first.plan) << all_text(first);
  EXPECT_EQ(first.plan->stages[0].connector->zmq_port, 50151);
  EXPECT_EQ(first.plan->stages[1].connector->zmq_port, 50152);
  EXPECT_EQ(first.plan->stages[2].connector->sender_zmq_port, 50152);
  setenv("VLLM_OMNI_REPLICA_ID", "1", 1);
  auto second = parse(speech_yaml("port_rule: kv_transfer"));
  setenv("VLLM_OMNI_REPLICA_ID", "one", 1);
  auto wrong = parse(speech_yaml("port_rule: kv_transfer"));
  unsetenv("VLLM_OMNI_REPLICA_ID");
  ASSERT_TRUE(second.plan) << all_text(second);
  EXPECT_EQ(second.plan->stages[1].connector->zmq_port, 51176);
  EXPECT_THAT(error_text(wrong), HasSubstr("VLLM_OMNI_REPLICA_ID is `one`"));
}

TEST(Plan, sender_that_is_given_is_kept_and_a_wrong_port_is_pointed_out) {
  auto result = parse(speech_yaml("sender_host: 10.0.0.2, sender_zmq_port: 50051"));
  ASSERT_TRUE(result.plan) << all_text(result);
  EXPECT_EQ(result.plan->stages[2].connector->sender_host, "10.0.0.2");
  EXPECT_EQ(result.plan->stages[2].connector->sender_zmq_port, 50051);
  EXPECT_THAT(all_text(result),
              HasSubstr("warning: connectors.speech.extra.sender_zmq_port: stage 2 looks for stage 1 "
                        "on port 50051, but that binds 50052"));
}

TEST(Plan, sender_elsewhere_than_the_upstream_binds_is_pointed_out) {
  auto host = parse(speech_yaml("host: 127.0.0.1, sender_host: 127.0.0.2"));
  ASSERT_TRUE(host.plan) << all_text(host);
  EXPECT_THAT(all_text(host),
              HasSubstr("warning: connectors.speech.extra.sender_host: stage 1 looks for stage 0 "
                        "at 127.0.0.2, but that binds 127.0.0.1"));
  for (const char* same : {"host: 127.0.0.1, sender_host: localhost", "host: auto, sender_host: 10.0.0.2",
                           "host: 127.0.0.1, sender_host: auto"}) {
    EXPECT_EQ(all_text(parse(speech_yaml(same))), "") << same;
  }
  EXPECT_THAT(error_text(parse(speech_yaml("zmq_port: 0, sender_zmq_port: 5555"))),
              HasSubstr("stage 1 looks for stage 0 on port 5555, but that binds any free port"));
}

TEST(Plan, role_follows_from_the_edges) {
  auto result = parse(speech_yaml("role: sender"));
  ASSERT_TRUE(result.plan) << all_text(result);
  EXPECT_EQ(result.plan->stages[2].connector->role, Role::receiver);
  EXPECT_THAT(all_text(result),
              HasSubstr("stage 2 is a receiver by its edges, not a sender: leave the role out"));
}

TEST(Plan, one_stage_and_no_stage) {
  auto one = parse("async_chunk: true\nstages: [{stage_id: 3}]\n");
  ASSERT_TRUE(one.plan) << all_text(one);
  EXPECT_FALSE(one.plan->async_chunk);
  EXPECT_FALSE(one.plan->stages[0].connector);
  EXPECT_THAT(all_text(one), HasSubstr("note: async_chunk: is false with a single stage"));
  auto none = parse("stages: []\n");
  ASSERT_TRUE(none.plan) << all_text(none);
  EXPECT_TRUE(none.plan->stages.empty());
}

TEST(Plan, edge_in_the_list_is_the_edge_of_the_stages) {
  auto listed = parse(
      "connectors: {c: {name: MoriTransferEngineConnector}}\n"
      "stages: [{stage_id: 1}, {stage_id: 0, output_connectors: {to_stage_1: c}}]\n"
      "edges: [{from: 0, to: 1, window_size: -1}]\n");
  ASSERT_TRUE(listed.plan) << all_text(listed);
  ASSERT_EQ(listed.plan->edges.size(), 1U);
  EXPECT_EQ(listed.plan->stages[1].connector->role, Role::receiver);
}

TEST(Plan, R14_unknown_stage_keys_are_kept_and_listed) {
  auto result = parse(
      "dtype: bfloat16\n"
      "duplex_session: {max_sessions: 2}\n"
      "stages:\n"
      "  - stage_id: 0\n"
      "    devices: 0\n"
      "    env: {OMP_NUM_THREADS: 4, NAME: \"yes\"}\n"
      "    max_num_seqs: 4\n"
      "    my_own: {deep: [1, \"two, three\", null, -1]}\n"
      "    num_replica: 2\n"
      "    engine_args: {enforce_eager: true}\n");
  ASSERT_TRUE(result.plan) << all_text(result);
  const StagePlan& stage = result.plan->stages[0];
  std::map<std::string, std::string> options = {{"max_num_seqs", "4"},
                                                {"my_own", "{deep: [1, \"two, three\", null, -1]}"},
                                                {"num_replica", "2"},
                                                {"enforce_eager", "true"}};
  EXPECT_EQ(stage.engine_options, options);
  EXPECT_EQ(stage.devices, "0");
  EXPECT_EQ(stage.env, (std::map<std::string, std::string>{{"NAME", "yes"}, {"OMP_NUM_THREADS", "4"}}));
  EXPECT_EQ(result.plan->engine_options.at("duplex_session"), "{max_sessions: 2}");
  EXPECT_EQ(
      all_text(result),
      "test.yaml:9:5: warning: stages.0.num_replica: unknown key, kept as an engine option; did you mean "
      "num_replicas?\n"
      "test.yaml:8:13: note: stages.0: kept for the engine: my_own, num_replica\n");
}

TEST(Plan, engine_options_twice_or_forbidden) {
  auto result = parse(
      "stages:\n"
      "  - {stage_id: 0, max_num_seqs: 1, engine_extras: {max_num_seqs: 2, use_v2_model_runner: true}}\n");
  EXPECT_THAT(error_text(result), HasSubstr("the engine option max_num_seqs is set twice in this stage"));
  EXPECT_THAT(error_text(result), HasSubstr("use_v2_model_runner: must not be set here: use model_runner"));
}

TEST(Plan, chunking_must_agree_along_an_edge) {
  DeployOptions options = shm_only();
  options.overrides = {"stages.1.async_chunk=false"};
  EXPECT_THAT(error_text(parse(speech_yaml(), options)), HasSubstr("the ends of edge 0 -> 1 disagree"));
  options.overrides = {"async_chunk=false", "stages.1.async_chunk=false"};
  EXPECT_EQ(error_text(parse(speech_yaml(), options)), "");
}

}  // namespace
}  // namespace stagewire::deploy
