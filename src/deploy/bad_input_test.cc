// What is said about files that are wrong: whole texts, as a user sees them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "deploy/test_support.hpp"
#include "deploy/yaml_reader.hpp"

namespace stagewire::deploy {
namespace {

using testing::HasSubstr;

TEST(BadInput, R14_undefined_connector_names_place_and_nearest) {
  auto result = parse(
      "connectors:\n"
      "  speech: {name: MoriTransferEngineConnector}\n"
      "stages:\n"
      "  - stage_id: 0\n"
      "    output_connectors: {to_stage_1: speach}\n"
      "  - stage_id: 1\n");
  EXPECT_FALSE(result.plan);
  EXPECT_EQ(
      error_text(result),
      "test.yaml:5:37: error: stages.0.output_connectors.to_stage_1: undefined connector `speach`; did you "
      "mean speech?\n");
}

TEST(BadInput, R14_stage_twice_names_both_lines) {
  auto result = parse(
      "stages:\n"
      "  - stage_id: 0\n"
      "  - stage_id: 0\n");
  EXPECT_EQ(
      error_text(result),
      "test.yaml:3:15: error: stages.0: stage 0 is here twice (first in line 2): give each stage its own "
      "stage_id\n");
}

TEST(BadInput, R14_dangling_edge) {
  auto result = parse(
      "connectors:\n"
      "  speech: {name: MoriTransferEngineConnector}\n"
      "stages:\n"
      "  - stage_id: 0\n"
      "    output_connectors: {to_stage_7: speech}\n"
      "  - stage_id: 1\n");
  EXPECT_EQ(
      error_text(result),
      "test.yaml:5:25: error: stages.0.output_connectors.to_stage_7: the edge 0 -> 7 needs stage 7, which is "
      "not in the file: it has 0, 1\n");
}

TEST(BadInput, R14_self_edge) {
  auto result = parse(
      "connectors:\n"
      "  speech: {name: MoriTransferEngineConnector}\n"
      "stages: [{stage_id: 0}, {stage_id: 1}]\n"
      "edges:\n"
      "  - {from: 1, to: 1, connector: speech}\n");
  EXPECT_EQ(error_text(result), "test.yaml:5:5: error: edges.0: an edge from stage 1 to itself\n");
}

TEST(BadInput, R14_pool_size_that_is_no_size) {
  auto result = parse(speech_yaml("memory_pool_size: lots"));
  EXPECT_EQ(
      error_text(result),
      "test.yaml:2:73: error: connectors.speech.extra.memory_pool_size: `lots` is not a size: write bytes as "
      "536870912, 512MiB (1024s), 512MB (1000s) or 0.5GiB\n");
}

TEST(BadInput, R14_xgmi_without_an_AMD_GPU_gives_the_reason) {
  auto result = parse(speech_yaml("backend_type: xgmi"));
  EXPECT_EQ(error_text(result),
            "test.yaml:2:69: error: connectors.speech.extra.backend_type: xgmi moves GPU memory, and "
            "memory_pool_device is cpu: write backend_type: auto\n"
            "test.yaml:2:69: error: connectors.speech.extra.backend_type: xgmi cannot be used: no AMD GPU: "
            "/dev/kfd "
            "is not there. Write backend_type: auto, which is shm here\n");
}

TEST(BadInput, R14_backend_that_the_build_lacks_says_what_it_needs) {
  auto result = parse(speech_yaml("backend_type: ucx"));
  EXPECT_THAT(error_text(result),
              HasSubstr("ucx cannot be used: this build of Stagewire has no such backend (it "
                        "would need UCX's libucp). Write backend_type: auto, which is shm here"));
}

TEST(BadInput, R14_gpu_pool_is_refused_with_the_alternative) {
  auto result = parse(speech_yaml("memory_pool_device: cuda"));
  EXPECT_THAT(error_text(result), HasSubstr("a pool on `cuda` needs a backend for GPU memory"));
  EXPECT_THAT(error_text(result), HasSubstr("write cpu"));
}

TEST(BadInput, R14_unknown_extra_key_names_the_nearest) {
  auto result = parse(speech_yaml("zmq_prot: 50051"));
  EXPECT_EQ(error_text(result),
            "test.yaml:2:55: error: connectors.speech.extra.zmq_prot: unknown key; did you mean zmq_port?\n");
}

TEST(BadInput, R14_unknown_top_level_key_names_the_nearest) {
  EXPECT_EQ(error_text(parse("async_chunks: true\nstages: []\n")),
            "test.yaml:1:1: error: async_chunks: unknown key; did you mean async_chunk?\n");
}

TEST(BadInput, R14_duplicate_key_is_refused) {
  auto result = parse("async_chunk: true\nstages: []\nasync_chunk: false\n");
  EXPECT_EQ(error_text(result),
            "test.yaml:3:1: error: the key `async_chunk` stands here twice (first in line 1): remove one\n");
}

TEST(BadInput, R14_every_error_at_once_in_file_order) {
  auto result = parse(
      "async_chunk: yes\n"
      "connectors:\n"
      "  a: {name: MoriTransferEngineConnector, extra: {zmq_port: 0x10, lease_share: 2}}\n"
      "  b: {name: MoriTransferEngineConector}\n"
      "stages:\n"
      "  - devices: \"0\"\n"
      "  - stage_id: one\n");
  ASSERT_EQ(result.diagnostics.size(), 8U) << all_text(result);
  EXPECT_EQ(
      error_text(result),
      "test.yaml:1:14: error: async_chunk: expected true or false, found `yes`: write true\n"
      "test.yaml:3:60: error: connectors.a.extra.zmq_port: expected an integer, found `0x10`: write it in "
      "decimal\n"
      "test.yaml:3:79: error: connectors.a.extra.lease_share: `2` is out of range: 0 to 1\n"
      "test.yaml:4:13: error: connectors.b.name: unknown connector class `MoriTransferEngineConector`; did "
      "you "
      "mean MoriTransferEngineConnector?\n"
      "test.yaml:6:5: error: stages.0: has no stage_id: write stage_id: and a number from 0\n"
      "test.yaml:7:15: error: stages.one.stage_id: expected an integer, found `one`\n");
}

TEST(BadInput, R14_a_broken_connector_section_never_becomes_something_else) {
  for (const char* section : {"connectors: null\n", "connectors: []\n", "connectors: speech\n",
                              "connectors: {speech: null}\n", "connectors: {speech: {extra: {}}}\n",
                              "connectors: {speech: {name: MoriTransferEngineConnector, extra: []}}\n",
                              "connectors: {speech: {name: SharedMemoryConnector}}\n"}) {
    auto result = parse(std::string(section) +
                        "stages:\n"
                        "  - {stage_id: 0, output_connectors: {to_stage_1: speech}}\n"
                        "  - {stage_id: 1}\n");
    EXPECT_FALSE(result.plan) << section;
    EXPECT_THAT(error_text(result), HasSubstr("test.yaml:")) << section;
  }
  for (const char* map : {"null", "[]", "speech", "{to_stage_x: speech}", "{from_stage_1: speech}",
                          "{to_stage_1: null}", "{to_stage_1: [speech]}", "{to_stage_01: speech}"}) {
    auto result = parse(
        "connectors: {speech: {name: MoriTransferEngineConnector}}\nstages:\n  - stage_id: 0\n"
        "    output_connectors: " +
        std::string(map) + "\n  - stage_id: 1\n");
    EXPECT_FALSE(result.plan) << map;
    EXPECT_THAT(error_text(result), HasSubstr("stages.0.output_connectors")) << map;
  }
}

TEST(BadInput, R14_class_of_vllm_omni_is_named_as_such) {
  auto result = parse(
      "connectors: {c: {name: SharedMemoryConnector}}\n"
      "stages: [{stage_id: 0, output_connectors: {to_stage_1: c}}, {stage_id: 1}]\n");
  EXPECT_THAT(error_text(result),
              HasSubstr("edge 0 -> 1 uses SharedMemoryConnector, which is vllm-omni's and not in "
                        "Stagewire: use MoriTransferEngineConnector"));
}

TEST(BadInput, R14_edge_without_a_connector) {
  auto result = parse(
      "connectors: {c: {name: MoriTransferEngineConnector}}\n"
      "stages: [{stage_id: 0}, {stage_id: 1}]\n"
      "edges: [{from: 0, to: 1}]\n");
  EXPECT_EQ(
      error_text(result),
      "test.yaml:3:9: error: edges.0: the edge 0 -> 1 has no connector; defined: c. Write `connector: NAME` "
      "here, or `output_connectors: {to_stage_1: NAME}` in stage 0\n");
}

TEST(BadInput, R14_ends_that_disagree_name_the_keys) {
  auto result = parse(
      "stages:\n"
      "  - {stage_id: 0, output_connectors: {to_stage_1: {name: MoriTransferEngineConnector, extra: "
      "{zmq_port: 1}}}}\n"
      "  - {stage_id: 1, input_connectors: {from_stage_0: {name: MoriTransferEngineConnector, extra: "
      "{zmq_port: 2, "
      "wait: spin}}}}\n");
  EXPECT_THAT(error_text(result), HasSubstr("the ends of edge 0 -> 1 disagree in zmq_port, wait"));
}

TEST(BadInput, R14_two_upstreams_and_circles_are_refused) {
  const std::string start =
      "connectors: {c: {name: MoriTransferEngineConnector}}\n"
      "stages: [{stage_id: 0}, {stage_id: 1}, {stage_id: 2}]\n";
  EXPECT_THAT(
      error_text(parse(start + "edges: [{from: 0, to: 2, connector: c}, {from: 1, to: 2, connector: c}]\n")),
      HasSubstr("stage 2 has a second upstream, stage 1 besides stage 0"));
  EXPECT_THAT(
      error_text(parse(start + "edges: [{from: 0, to: 1, connector: c}, {from: 1, to: 2, connector: c}, "
                               "{from: 2, to: 0, connector: c}]\n")),
      HasSubstr("the edges form a circle: 0 -> 1 -> 2 -> 0"));
}

TEST(BadInput, R12_ports_that_collide_name_both_stages) {
  auto result = parse(
      "connectors:\n"
      "  a: {name: MoriTransferEngineConnector, extra: {zmq_port: 50052}}\n"
      "  b: {name: MoriTransferEngineConnector, extra: {zmq_port: 50051}}\n"
      "stages: [{stage_id: 0}, {stage_id: 1}, {stage_id: 2}]\n"
      "edges: [{from: 0, to: 1, connector: a}, {from: 1, to: 2, connector: b}]\n");
  EXPECT_THAT(error_text(result), HasSubstr("stages 0 and 1 would both bind port 50052 on 127.0.0.1"));
}

TEST(BadInput, R12_port_beyond_the_last) {
  auto result = parse(speech_yaml("zmq_port: 65535"));
  EXPECT_THAT(error_text(result), HasSubstr("zmq_port 65535 makes port 65536 for stage 1"));
}

TEST(BadInput, R13_more_than_one_process_of_a_stage_with_edges) {
  DeployOptions options = shm_only();
  options.overrides = {"stages.1.num_replicas=2", "stages.2.tensor_parallel_size=4"};
  const std::string errors = error_text(parse(speech_yaml(), options));
  EXPECT_THAT(errors, HasSubstr("stages.1.num_replicas: 2 replicas of a stage with edges"));
  EXPECT_THAT(errors,
              HasSubstr("stages.2.tensor_parallel_size: the connector of a stage serves one rank, not 4"));
}

TEST(BadInput, R16_hosts_that_no_peer_can_call) {
  for (const char* host : {"\"*\"", "0.0.0.0", "\"::\"", "127.0.0.1:50051", "tcp://127.0.0.1", "\"\""}) {
    EXPECT_THAT(error_text(parse(speech_yaml("host: " + std::string(host)))),
                HasSubstr("connectors.speech.extra.host"))
        << host;
  }
}

TEST(BadInput, R14_text_that_is_not_yaml_or_too_much_of_it) {
  const std::string deep = std::string(40, '[') + std::string(40, ']');
  std::string bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n";
  for (char c = 'b'; c < 'j'; ++c) {
    const std::string before = "*" + std::string(1, static_cast<char>(c - 1));
    bomb += std::string(1, c) + ": &" + c + " [" + before;
    for (int i = 0; i < 9; ++i) bomb += ", " + before;
    bomb += "]\n";
  }
  const std::pair<std::string, const char*> cases[] = {
      {std::string("a: \0\n", 5), "1:4: error: byte 0 is not UTF-8 text"},
      {"a: \xff\n", "1:4: error: byte 255 is not UTF-8 text"},
      {"stages:\n\t- stage_id: 0\n", "2:1: error: a tab indents this line"},
      {"", "expected a map of keys"},
      {"- 1\n", "1:1: error: expected a map of keys such as `stages:`, found a list"},
      {"stages: [\n", "error: not YAML: "},
      {"stages: []\n---\nstages: []\n", "error: a second document (---)"},
      {"a: !!str no\n", "error: the tag tag:yaml.org,2002:str: tags are not read"},
      {"<<: {a: 1}\n", "1:1: error: merge keys (<<) are not read"},
      {"a: &a [*a]\n", "error: this alias stands inside the value that it names"},
      {"a: *nowhere\n", "error: not YAML: "},
      {"? [a]\n: b\n", "error: a list as a key"},
      {"a: " + deep, "error: nested deeper than 32 levels"},
      {bomb, "error: more than 10000 values, aliases counted as often as they are used"},
      {std::string(kMaxFileSize + 1, '#'), "error: 1048577 bytes: a deploy file has at most 1048576"},
  };
  for (const auto& [text, expected] : cases) {
    auto result = parse(text);
    EXPECT_FALSE(result.plan) << text.substr(0, 40);
    EXPECT_THAT(error_text(result), HasSubstr(expected)) << text.substr(0, 40);
  }
}

TEST(BadInput, a_flood_of_errors_is_cut_and_counted) {
  std::string text = "stages: []\n";
  for (int i = 0; i < 150; ++i) text += "key_" + std::to_string(i) + ": 1\n";
  auto result = parse(text);
  EXPECT_EQ(result.diagnostics.size(), Diagnostics::kMaxShown + 1);
  EXPECT_THAT(result.diagnostics.back().message, HasSubstr("50 more"));
}

TEST(BadInput, R14_quotes_that_are_not_closed_are_found_where_they_open) {
  EXPECT_EQ(error_text(parse("foo: 'abc\n  - stage_id: 1\n")),
            "test.yaml:1:6: error: these quotes are not closed before the end of the text\n");
  EXPECT_EQ(error_text(parse("\xEF\xBB\xBFpipeline: x\nfoo: &a \"it's \\\"\nbar: ''\n")),
            "test.yaml:2:9: error: these quotes are not closed before the end of the text\n");
  EXPECT_THAT(error_text(parse("async_chunk: true\n\"stages\n")), HasSubstr("test.yaml:2:1: error: "));
  EXPECT_EQ(all_text(parse("pipeline: 'it''s'\r\nstages: [{stage_id: 0, \"description\": \"a \\\" # ' b\"}]\n"
                           "# it's a comment\n")),
            "test.yaml:2:39: note: stages.0: kept for the engine: description\n");
}

TEST(BadInput, R14_nothing_between_two_commas_is_no_value) {
  EXPECT_THAT(error_text(parse("stages: [{stage_id: 0},, {stage_id: 1}]\n")),
              HasSubstr("test.yaml:1:24: error: nothing stands before this comma"));
  EXPECT_THAT(error_text(parse("stages: [{stage_id: 0, list: [,a]}]\n")), HasSubstr("before this comma"));
  EXPECT_EQ(error_text(parse("stages: [{stage_id: 0, list: [a, null, ~, b: ,],},]\n")), "");
}

TEST(BadInput, R16_an_empty_secret_key_does_not_mean_none) {
  const std::string there = "test.yaml:2:67: error: connectors.speech.extra.secret_key: ";
  EXPECT_THAT(error_text(parse(speech_yaml("secret_key: \"\""))), HasSubstr(there + "is empty"));
  unsetenv("STAGEWIRE_TEST_KEY");
  EXPECT_THAT(error_text(parse(speech_yaml("secret_key: \"${STAGEWIRE_TEST_KEY}\""))),
              HasSubstr("is not set"));
  EXPECT_THAT(error_text(parse(speech_yaml("secret_key: \"${STAGEWIRE_TEST_KEY:-}\""))),
              HasSubstr(there + "is empty"));
  setenv("STAGEWIRE_TEST_KEY", "", 1);
  EXPECT_THAT(error_text(parse(speech_yaml("secret_key: \"${STAGEWIRE_TEST_KEY}\""))),
              HasSubstr(there + "is empty"));
  unsetenv("STAGEWIRE_TEST_KEY");
  EXPECT_EQ(error_text(parse(speech_yaml())), "");
}

TEST(BadInput, R16_a_secret_key_that_is_none_is_refused_and_not_shown) {
  const std::string text = error_text(parse(speech_yaml("secret_key: hunter2hunter2")));
  EXPECT_THAT(text,
              HasSubstr("connectors.speech.extra.secret_key: the secret key is neither 64 hexadecimal"));
  EXPECT_THAT(text, testing::Not(HasSubstr("hunter2")));
  EXPECT_EQ(error_text(parse(speech_yaml("secret_key: \"" + std::string(64, 'a') + "\""))), "");
}

TEST(BadInput, R14_a_fault_spec_is_read_before_anything_is_started) {
  EXPECT_THAT(error_text(parse(speech_yaml("fault_spec: \"drop=2\""))),
              HasSubstr("test.yaml:2:67: error: connectors.speech.extra.fault_spec: fault_spec: 'drop=2'"));
  EXPECT_THAT(error_text(parse(speech_yaml("fault_spec: \"over=nothing\""))),
              HasSubstr("over=nothing: there is no such backend"));
  EXPECT_THAT(error_text(parse(speech_yaml("fault_spec: \"over=xgmi\""))), HasSubstr("no AMD GPU"));
  EXPECT_EQ(error_text(parse(speech_yaml("fault_spec: \"over=shm,drop=0.5\""))), "");
}

TEST(BadInput, R14_hosts_are_checked_at_their_place) {
  EXPECT_THAT(
      error_text(parse(speech_yaml("host: \"255.255.255.255\""))),
      HasSubstr("test.yaml:2:61: error: connectors.speech.extra.host: `255.255.255.255` is the broadcast"));
  EXPECT_THAT(error_text(parse(speech_yaml("sender_host: \"fe80::1%nope\""))),
              HasSubstr("connectors.speech.extra.sender_host: `fe80::1%nope` names the interface nope"));
}

TEST(BadInput, R14_a_time_to_live_of_next_to_nothing_is_refused) {
  EXPECT_THAT(error_text(parse(speech_yaml("buffer_ttl_s: 1e-300"))),
              HasSubstr("buffer_ttl_s: 1e-300 is out of range: 0 for never, or at least 0.001"));
  EXPECT_EQ(error_text(parse(speech_yaml("buffer_ttl_s: 0.001"))), "");
  EXPECT_EQ(error_text(parse(speech_yaml("buffer_ttl_s: 0"))), "");
}

TEST(BadInput, R14_a_variable_too_long_for_the_kernel_is_named) {
  const auto stage_with = [](std::size_t size) {
    return parse("stages:\n  - stage_id: 3\n    env:\n      LONG: " + std::string(size, 'x') + "\n");
  };
  EXPECT_THAT(error_text(stage_with(200'000)),
              HasSubstr("test.yaml:4:7: error: stages.3.env.LONG: takes 200006 bytes"));
  EXPECT_EQ(error_text(stage_with(100'000)), "");
}

TEST(BadInput, control_characters_do_not_reach_the_terminal) {
  EXPECT_EQ(error_text(parse("\"a\\e[31m\": 1\n")),
            "test.yaml:1:1: error: a control character inside a key\n");
  const std::string text = all_text(parse(speech_yaml("route: \"\\e[31m\\x9b\"")));
  EXPECT_THAT(text, HasSubstr("\\x1b[31m"));
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
  EXPECT_EQ(text.find('\x9b'), std::string::npos) << text;
}

}  // namespace
}  // namespace stagewire::deploy
