// The deploy files in deploy/: all are read strictly, and what they say arrives in the plan.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "deploy/cpu_file.hpp"
#include "deploy/test_support.hpp"

namespace stagewire::deploy {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

std::string shipped(const std::string& name) {
  return STAGEWIRE_SOURCE_DIR "/deploy/" + name;
}

DeployOptions with_amd_gpu() {
  DeployOptions options = shm_only();
  options.backends.back() = {"xgmi", true, "3 GPUs"};
  return options;
}

DeployOptions with_everything() {
  DeployOptions options = with_amd_gpu();
  options.backends.push_back({"rdma", true, "mlx5_0"});
  return options;
}

DeployPlan plan_of(const std::string& name, const DeployOptions& options) {
  DeployResult result = load_deploy(shipped(name), options);
  EXPECT_TRUE(result.plan.has_value()) << all_text(result);
  EXPECT_EQ(all_text(result), "");
  return result.plan ? std::move(*result.plan) : DeployPlan();
}

TEST(ShippedFiles, all_are_read_without_a_word) {
  for (const auto& entry : std::filesystem::directory_iterator(shipped(""))) {
    SCOPED_TRACE(entry.path());
    plan_of(entry.path().filename().string(), with_everything());
  }
}

TEST(ShippedFiles, R14_every_fact_of_the_intranode_file_arrives_in_the_plan) {
  const DeployPlan plan = plan_of("qwen3_omni_moe_mori_intranode.yaml", with_amd_gpu());
  EXPECT_TRUE(plan.async_chunk);
  ASSERT_EQ(plan.stages.size(), 3U);
  ASSERT_EQ(plan.edges.size(), 2U);
  for (const StagePlan& stage : plan.stages) {
    SCOPED_TRACE(stage.stage_id);
    EXPECT_EQ(stage.devices, std::to_string(stage.stage_id));
    EXPECT_THAT(stage.chunk_options,
                UnorderedElementsAre(Pair("codec_chunk_frames", 25), Pair("codec_left_context_frames", 25),
                                     Pair("initial_codec_chunk_frames", 0)));
    ASSERT_TRUE(stage.connector.has_value());
    EXPECT_EQ(stage.connector->host, "auto");
    EXPECT_EQ(stage.connector->backend_type, "xgmi");
    EXPECT_FALSE(stage.connector->backend_settings.contains("device_name"));
    EXPECT_EQ(stage.connector->memory_pool_size, 536'870'912U);
    EXPECT_EQ(stage.connector->memory_pool_device, "cuda");
    EXPECT_EQ(stage.engine_options.at("enforce_eager"), "true");
  }
  EXPECT_EQ(plan.stages[0].connector->role, Role::sender);
  EXPECT_EQ(plan.stages[0].connector->zmq_port, 50'051);
  EXPECT_EQ(plan.stages[1].connector->role, Role::dual);
  EXPECT_EQ(plan.stages[1].connector->zmq_port, 50'052);
  EXPECT_EQ(plan.stages[1].connector->sender_zmq_port, 50'051);
  EXPECT_EQ(plan.stages[2].connector->role, Role::receiver);
  EXPECT_EQ(plan.stages[2].connector->sender_zmq_port, 50'052);
  EXPECT_THAT(plan.edges[0].route, HasSubstr("xgmi"));
}

TEST(ShippedFiles, R14_engine_options_of_the_intranode_file_are_kept) {
  const DeployPlan plan = plan_of("qwen3_omni_moe_mori_intranode.yaml", with_amd_gpu());
  ASSERT_EQ(plan.stages.size(), 3U);
  const auto option = [&](std::size_t stage, const char* name) {
    const auto& options = plan.stages[stage].engine_options;
    const auto found = options.find(name);
    return found == options.end() ? std::string("not there") : found->second;
  };
  EXPECT_EQ(option(0, "gpu_memory_utilization"), "0.9");
  EXPECT_EQ(option(1, "gpu_memory_utilization"), "0.9");
  EXPECT_EQ(option(2, "gpu_memory_utilization"), "0.3");
  EXPECT_EQ(option(2, "max_num_seqs"), "1");
  EXPECT_EQ(option(2, "max_num_batched_tokens"), "51200");
  EXPECT_EQ(option(2, "async_scheduling"), "false");
  EXPECT_THAT(option(0, "default_sampling_params"),
              AllOf(HasSubstr("temperature: 0.4"), HasSubstr("top_p: 0.9"), HasSubstr("top_k: 1"),
                    HasSubstr("max_tokens: 2048"), HasSubstr("seed: 42"), HasSubstr("penalty: 1.05")));
  EXPECT_THAT(option(1, "default_sampling_params"),
              AllOf(HasSubstr("temperature: 0.9"), HasSubstr("top_k: 50"), HasSubstr("max_tokens: 4096"),
                    HasSubstr("seed: 42"), HasSubstr("penalty: 1.05")));
  EXPECT_THAT(option(2, "default_sampling_params"),
              AllOf(HasSubstr("temperature: 0.0"), HasSubstr("top_p: 1.0"), HasSubstr("top_k: -1"),
                    HasSubstr("max_tokens: 65536"), HasSubstr("seed: 42"), HasSubstr("penalty: 1.1")));
}

TEST(ShippedFiles, the_files_for_cpus_stay_on_this_host) {
  for (const auto& [name, frames, context] :
       {std::tuple("qwen3_omni_moe_cpu.yaml", 25, 25), std::tuple("qwen2_5_omni_cpu.yaml", 24, 36)}) {
    SCOPED_TRACE(name);
    const DeployPlan plan = plan_of(name, shm_only());
    EXPECT_TRUE(plan.async_chunk);
    ASSERT_EQ(plan.stages.size(), 3U);
    for (const StagePlan& stage : plan.stages) {
      EXPECT_EQ(stage.connector->host, "127.0.0.1");
      EXPECT_EQ(stage.connector->zmq_port, 0);
      EXPECT_EQ(stage.connector->backend_type, "auto");
      EXPECT_EQ(stage.connector->memory_pool_device, "cpu");
      EXPECT_EQ(stage.chunk_options.at("codec_chunk_frames"), frames);
      EXPECT_EQ(stage.chunk_options.at("codec_left_context_frames"), context);
    }
  }
}

TEST(ShippedFiles, R14_without_a_gpu_the_file_for_cpus_is_named) {
  const DeployResult result = load_deploy(shipped("qwen3_omni_moe_mori_intranode.yaml"), shm_only());
  EXPECT_FALSE(result.plan);
  const std::string hint = "; " + shipped("qwen3_omni_moe_cpu.yaml") + " has the same stages without a GPU\n";
  EXPECT_THAT(error_text(result), AllOf(HasSubstr("xgmi cannot be used: no AMD GPU: /dev/kfd is not there. "
                                                  "Write backend_type: auto, which is shm here" +
                                                  hint),
                                        HasSubstr("over through host memory" + hint)));
}

TEST(ShippedFiles, R10_the_stages_of_two_hosts_find_each_other_through_the_master) {
  const DeployPlan plan = plan_of("qwen3_omni_moe_rdma_2node.yaml", with_everything());
  ASSERT_EQ(plan.stages.size(), 3U);
  ASSERT_EQ(plan.edges.size(), 2U);
  for (const StagePlan& stage : plan.stages) {
    ASSERT_TRUE(stage.connector.has_value());
    EXPECT_EQ(stage.connector->backend_type, "rdma");
    EXPECT_EQ(stage.connector->host, "auto");
    EXPECT_EQ(stage.connector->zmq_port, 0);
    EXPECT_EQ(stage.connector->sender_zmq_port, 0);
    EXPECT_EQ(stage.connector->sender_host, stage.stage_id == 0 ? "" : "auto");
    EXPECT_EQ(stage.chunk_options.at("codec_chunk_frames"), 25);
  }
}

TEST(CpuFile, is_the_one_of_the_same_model_and_never_the_file_itself) {
  EXPECT_EQ(cpu_file_beside(shipped("qwen3_omni_moe_two_nodes.yaml")), shipped("qwen3_omni_moe_cpu.yaml"));
  EXPECT_EQ(cpu_file_beside(shipped("qwen3_omni_moe_cpu.yaml")), "");
  EXPECT_EQ(cpu_file_beside(shipped("speech_intranode.yaml")), "");
  EXPECT_EQ(cpu_file_beside("nowhere/qwen3_omni_moe.yaml"), "");
  EXPECT_EQ(cpu_file_beside(""), "");
}

}  // namespace
}  // namespace stagewire::deploy
