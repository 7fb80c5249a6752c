// Bases, platforms, overrides, the schema of 2025: what is laid over what.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "deploy/schema.hpp"
#include "deploy/test_support.hpp"
#include "support/temp_dir.hpp"

namespace stagewire::deploy {
namespace {

using testing::HasSubstr;

class Layers : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    const auto path = directory_.path() / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path.string();
  }

  test::TempDir directory_;
};

TEST_F(Layers, overlay_merges_connectors_and_stages_and_wins) {
  write("base/common.yaml",
        "async_chunk: false\n"
        "dtype: float16\n"
        "connectors:\n"
        "  c: {name: MoriTransferEngineConnector, extra: {zmq_port: 50070, wait: spin}}\n"
        "stages:\n"
        "  - {stage_id: 0, devices: \"0\", max_num_seqs: 1, output_connectors: {to_stage_1: c}}\n"
        "  - {stage_id: 1, devices: \"1\", default_sampling_params: {top_k: 1, seed: 42}}\n");
  write("base/middle.yaml", "base_config: common.yaml\ndtype: bfloat16\n");
  const std::string file = write("top.yaml",
                                 "base_config: base/middle.yaml\n"
                                 "async_chunk: true\n"
                                 "connectors: {c: {extra: {zmq_port: 0}}}\n"
                                 "stages:\n"
                                 "  - {stage_id: 1, devices: \"3\", default_sampling_params: {top_k: 50}}\n"
                                 "  - {stage_id: 2}\n");
  auto result = load_deploy(file, shm_only());
  ASSERT_TRUE(result.plan) << all_text(result);
  const DeployPlan& plan = *result.plan;
  EXPECT_TRUE(plan.async_chunk);
  EXPECT_EQ(plan.engine_options.at("dtype"), "bfloat16");
  ASSERT_EQ(plan.stages.size(), 3U);
  EXPECT_EQ(plan.stages[0].connector->zmq_port, 0);
  EXPECT_EQ(plan.stages[0].connector->wait, WaitStrategy::spin);
  EXPECT_EQ(plan.stages[1].devices, "3");
  EXPECT_EQ(plan.stages[1].engine_options.at("default_sampling_params"), "{top_k: 50, seed: 42}");
  EXPECT_FALSE(plan.stages[2].connector);
}

TEST_F(Layers, all_files_that_were_read_are_named) {
  const std::string base = write("base.yaml", "dtype: float16\n");
  const std::string other = write("other.yaml", "dtype: bfloat16\n");
  const std::string top = write("top.yaml", "base_config: ./base.yaml\nstages: [{stage_id: 0}]\n");
  const auto canonical = [](const std::string& file) { return std::filesystem::canonical(file).string(); };
  const std::vector<std::string> as_written{canonical(top), canonical(base)};
  EXPECT_EQ(load_deploy(top, shm_only()).plan->files_read, as_written);
  DeployOptions options = shm_only();
  options.overrides = {"base_config=other.yaml"};
  const std::vector<std::string> overridden{canonical(top), canonical(other)};
  EXPECT_EQ(load_deploy(top, options).plan->files_read, overridden);
}

TEST_F(Layers, R14_an_error_names_the_file_that_it_stands_in) {
  const std::string base = write("base.yaml", "stages: []\nasync_chunk: maybe\n");
  const std::string file = write("top.yaml", "base_config: base.yaml\nsession_mode: both\n");
  EXPECT_EQ(error_text(load_deploy(file, shm_only())),
            base + ":2:14: error: async_chunk: expected true or false, found `maybe`\n" + file +
                ":2:15: error: session_mode: expected one of turn, duplex, found `both`\n");
}

TEST_F(Layers, R14_bases_that_cannot_be_read) {
  const std::string circle = write("circle.yaml", "base_config: ./circle.yaml\nstages: []\n");
  EXPECT_THAT(error_text(load_deploy(circle, shm_only())), HasSubstr(":1:14: error: base_config: "));
  EXPECT_THAT(error_text(load_deploy(circle, shm_only())), HasSubstr("is based on itself"));
  const std::string missing = write("missing.yaml", "base_config: nowhere.yaml\n");
  EXPECT_THAT(error_text(load_deploy(missing, shm_only())),
              HasSubstr(missing + ":1:14: error: base_config: cannot open"));
  const std::string device = write("device.yaml", "base_config: /dev/zero\n");
  EXPECT_THAT(error_text(load_deploy(device, shm_only())), HasSubstr("/dev/zero is no regular file"));
  EXPECT_THAT(error_text(load_deploy(directory_.file("none.yaml"), shm_only())),
              HasSubstr("none.yaml: error: cannot open"));
  EXPECT_THAT(error_text(load_deploy(directory_.path().string(), shm_only())),
              HasSubstr("is no regular file"));
}

TEST(Platform, section_that_is_chosen_wins_over_the_file) {
  const std::string text =
      "stages: [{stage_id: 0, devices: \"0\", env: {A: \"1\", B: \"1\"}}, {stage_id: 1}]\n"
      "platforms:\n"
      "  rocm:\n"
      "    dtype: float16\n"
      "    stages: [{stage_id: 0, devices: \"4\", env: {B: \"2\"}}, {stage_id: 9, devices: \"5\"}]\n"
      "  npu: {stages: [{stage_id: 0, devices: \"7\"}]}\n";
  DeployOptions options = shm_only();
  auto plain = parse(text, options);
  ASSERT_TRUE(plain.plan) << all_text(plain);
  EXPECT_EQ(plain.plan->stages[0].devices, "0");
  options.platform = "rocm";
  auto rocm = parse(text, options);
  ASSERT_TRUE(rocm.plan) << all_text(rocm);
  EXPECT_EQ(rocm.plan->stages[0].devices, "4");
  EXPECT_EQ(rocm.plan->stages[0].env, (std::map<std::string, std::string>{{"A", "1"}, {"B", "2"}}));
  EXPECT_EQ(rocm.plan->engine_options.at("dtype"), "float16");
  EXPECT_EQ(rocm.plan->stages.size(), 2U);
  EXPECT_THAT(all_text(rocm), HasSubstr("warning: platforms.rocm.stages: stage 9 is not among the stages"));
  options.overrides = {"stages.0.devices=\"6\"", "platforms.rocm.dtype=float32"};
  auto overridden = parse(text, options);
  ASSERT_TRUE(overridden.plan) << all_text(overridden);
  EXPECT_EQ(overridden.plan->stages[0].devices, "6");
  EXPECT_EQ(overridden.plan->engine_options.at("dtype"), "float32");
}

TEST(Platform, R14_names_and_keys_are_checked_also_where_not_chosen) {
  auto result = parse(
      "stages: []\n"
      "platforms: {rocn: {}, npu: {stagez: []}, xpu: {stages: [{devices: 1}, {stage_id: 0, num_replicas: "
      "none}]}}\n");
  EXPECT_THAT(error_text(result), HasSubstr("platforms.rocn: unknown platform; did you mean rocm?"));
  EXPECT_THAT(error_text(result), HasSubstr("platforms.npu.stagez: unknown key; did you mean stages?"));
  EXPECT_THAT(error_text(result), HasSubstr("platforms.xpu.stages.0: has no stage_id"));
  EXPECT_THAT(error_text(result), HasSubstr("platforms.xpu.stages.0.num_replicas: expected an integer"));
  DeployOptions options = shm_only();
  options.platform = "cudda";
  EXPECT_THAT(error_text(parse("stages: []\n", options)),
              HasSubstr("`cudda` is not known; did you mean cuda?"));
}

TEST(Override, R14_what_cannot_be_set) {
  const std::pair<const char*, const char*> cases[] = {
      {"stages.7.devices=1", "--set: error: stages.7: there is no `7` in this list: it has 0, 1, 2"},
      {"async_chunk.x=1", "--set: error: async_chunk.x: async_chunk is `true`, it has nothing inside"},
      {"nothing", "`nothing` is no override: write path=value"},
      {"=1", "is no override"},
      {"a..b=1", "an empty name in the path"},
      {"async_chunk=[",
       "--set: error: async_chunk: a list as a key: keys are plain words (or a bracket is not closed)"},
      {"async_chunk=maybe", "--set: error: async_chunk: expected true or false, found `maybe`"},
      {"async_chnk=true", "--set: error: async_chnk: unknown key; did you mean async_chunk?"},
      {"connectors.speech.extra.zmq_prot=1",
       "--set: error: connectors.speech.extra.zmq_prot: unknown key; did you"},
  };
  for (const auto& [text, expected] : cases) {
    DeployOptions options = shm_only();
    options.overrides = {text};
    auto result = parse("async_chunk: true\n" + speech_yaml(), options);
    EXPECT_FALSE(result.plan) << text;
    EXPECT_THAT(error_text(result), HasSubstr(expected)) << text;
  }
}

/// All that a plan says, but not where it was written.
std::string shown(const DeployResult& result) {
  std::string out;
  for (const Diagnostic& one : result.diagnostics) out += one.path + ": " + one.message + "\n";
  if (!result.plan) return out + "no plan\n";
  const DeployPlan& plan = *result.plan;
  out += base::text(plan.async_chunk, plan.pipeline, "\n");
  for (const auto& [name, value] : plan.engine_options) out += name + "=" + value + "\n";
  for (const StagePlan& stage : plan.stages) {
    out +=
        base::text(stage.stage_id, " ", stage.devices, " ", stage.num_replicas, " ", stage.async_chunk, "\n");
    for (const auto& [name, value] : stage.env) out += name + "=" + value + "\n";
    for (const auto& [name, value] : stage.engine_options) out += name + "=" + value + "\n";
    for (const auto& [name, value] : stage.chunk_options) out += base::text(name, "=", value, "\n");
    if (!stage.connector) continue;
    const ConnectorConfig& c = *stage.connector;
    out += base::text(c.stage_id, " ", static_cast<int>(c.role), " ", c.host, " ", c.zmq_port, " ",
                      c.backend_type, " ", c.backend_settings.size(), " ", c.memory_pool_size, " ",
                      c.memory_pool_device, " ", c.sender_host, " ", c.sender_zmq_port, " ", c.buffer_ttl_s,
                      " ", c.original_timeout_s, " ", c.lease_share, " ", c.route, " ",
                      static_cast<int>(c.wait), " ", c.fault_spec, "\n");
  }
  for (const EdgePlan& edge : plan.edges)
    out += base::text(edge.from_stage, edge.to_stage, edge.port, edge.route, "\n");
  return out;
}

/// Values, good and bad, for a key of this type.
std::vector<std::string> samples(const KeySpec& key) {
  std::vector<std::string> out = {"true", "no",    "null", "0x10",   "-1",     "0",      "1",        "7",
                                  "0.25", "\"7\"", "word", "512MiB", "[1, 2]", "{a: b}", "127.0.0.2"};
  for (std::string_view one : split_choices(key.choices)) out.emplace_back(one);
  return out;
}

TEST(Override, R14_gives_the_same_as_the_value_in_the_file) {
  int compared = 0;
  int plans = 0;
  auto compare = [&](const std::string& path, const std::string& value, const std::string& in_file) {
    DeployOptions options = shm_only();
    options.overrides = {path + "=" + value};
    auto by_override = parse(speech_yaml("buffer_ttl_s: 300"), options);
    auto by_file = parse(in_file);
    EXPECT_EQ(shown(by_override), shown(by_file)) << path << "=" << value;
    ++compared;
    plans += by_file.plan ? 1 : 0;
  };
  for (const KeySpec& key : extra_keys()) {
    if (key.name == "buffer_ttl_s") continue;
    for (const std::string& value : samples(key)) {
      compare("connectors.speech.extra." + std::string(key.name), value,
              speech_yaml("buffer_ttl_s: 300, " + std::string(key.name) + ": " + value));
    }
  }
  for (const KeySpec& key : stage_keys()) {
    if (key.name == "stage_id" || key.name == "input_connectors") continue;  // they are in the file already
    for (const std::string& value : samples(key)) {
      compare("stages.2." + std::string(key.name), value,
              speech_yaml("buffer_ttl_s: 300") + "    " + std::string(key.name) + ": " + value + "\n");
    }
  }
  for (const KeySpec& key : top_level_keys()) {
    if (key.name == "connectors" || key.name == "stages" || key.name == "base_config") continue;
    for (const std::string& value : samples(key)) {
      compare(std::string(key.name), value,
              speech_yaml("buffer_ttl_s: 300") + std::string(key.name) + ": " + value + "\n");
    }
  }
  EXPECT_GT(compared, 800);
  EXPECT_GT(plans, 200) << "the samples should give plans, too, not only errors";
}

TEST(Legacy, file_of_2025_is_read_and_the_note_says_how_to_write_it) {
  auto result = parse(
      "stage_args:\n"
      "  - stage_id: 0\n"
      "    stage_type: llm\n"
      "    runtime: {process: true, devices: \"0\", max_batch_size: 1}\n"
      "    engine_args: {model_stage: thinker, tensor_parallel_size: 1}\n"
      "    output_connectors: {to_stage_1: mori}\n"
      "  - stage_id: 1\n"
      "    engine_input_source: [0]\n"
      "    final_output: true\n"
      "runtime:\n"
      "  enabled: true\n"
      "  defaults: {window_size: -1, max_inflight: 1}\n"
      "  connectors: {mori: {name: MoriTransferEngineConnector, extra: {zmq_port: 50051}}}\n"
      "  edges: [{from: 0, to: 1, window_size: -1}]\n");
  ASSERT_TRUE(result.plan) << all_text(result);
  ASSERT_EQ(result.plan->edges.size(), 1U);
  EXPECT_EQ(result.plan->stages[0].devices, "0");
  EXPECT_EQ(result.plan->stages[0].connector->zmq_port, 50051);
  EXPECT_EQ(result.plan->stages[0].engine_options.at("model_stage"), "thinker");
  EXPECT_EQ(result.plan->stages[0].engine_options.at("max_batch_size"), "1");
  EXPECT_EQ(result.plan->stages[1].connector->sender_zmq_port, 50051);
  EXPECT_THAT(all_text(result),
              HasSubstr("note: stage_args: this is the schema of 2025. Today: the list `stage_args` "
                        "is called `stages`"));
}

TEST(Legacy, R14_sources_without_a_connector_and_mixed_schemas_are_errors) {
  EXPECT_THAT(error_text(parse("stage_args: [{stage_id: 0}, {stage_id: 1, engine_input_source: [0]}]\n")),
              HasSubstr("the edge 0 -> 1 has no connector"));
  EXPECT_THAT(error_text(parse("stage_args: []\nstages: []\n")), HasSubstr("stands beside today's `stages`"));
  EXPECT_THAT(error_text(parse("runtime: {conectors: {}}\nstages: []\n")),
              HasSubstr("did you mean connectors?"));
}

}  // namespace
}  // namespace stagewire::deploy
