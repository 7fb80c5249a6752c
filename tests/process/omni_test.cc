// stagewire serve MODEL --omni, the program: replays of both models, whole and over faults.
#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "process/serve_process.hpp"

namespace stagewire {
namespace {

using test::eventually;
using test::ServeProcess;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Line {
  const char* model;
  const char* file;
  const char* pipeline;
};
constexpr Line kQwen3{"Qwen/Qwen3-Omni-30B-A3B-Instruct", "qwen3_omni_moe_cpu.yaml", "qwen3_omni_moe"};
constexpr Line kQwen25{"Qwen/Qwen2.5-Omni-7B", "qwen2_5_omni_cpu.yaml", "qwen2_5_omni"};

class Omni : public test::ServeTest {
 protected:
  ServeProcess serve(const Line& line, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments{
        line.model,        "--omni",
        "--deploy-config", std::string(STAGEWIRE_SOURCE_DIR "/deploy/") + line.file,
        "--set",           "connectors.omni.extra.memory_pool_size=64MiB"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return ServeProcess(arguments, dir_.file("tmp"));
  }

  nlohmann::json statistics() const {
    return nlohmann::json::parse(test::read_file(dir_.file("stats.json")));
  }

  void expect_done(ServeProcess run, std::size_t requests) {
    const auto status = run.wait();
    EXPECT_TRUE(status.success()) << status.text() << "\n" << run.output();
    EXPECT_THAT(run.output(), HasSubstr("replayed " + std::to_string(requests) + " request"));
    EXPECT_THAT(run.output(), HasSubstr("every byte checked"));
  }

  void expect_usage_error(ServeProcess run, const std::string& words) {
    EXPECT_EQ(run.wait().text(), "ended with exit status 2") << run.output();
    EXPECT_THAT(run.output(), AllOf(HasSubstr("error: "), HasSubstr(words)));
  }

  /// Each request is done, or says why not; then the run fails and names it.
  void expect_all_ended(ServeProcess run, std::size_t requests) {
    const auto status = run.wait();
    ASSERT_TRUE(std::filesystem::exists(dir_.file("stats.json"))) << status.text() << "\n" << run.output();
    const auto stats = statistics();
    ASSERT_EQ(stats["requests"].size(), requests);
    std::size_t failed = 0;
    for (const auto& request : stats["requests"]) {
      if (request["status"] == "done") continue;
      ++failed;
      EXPECT_EQ(request["status"], "failed");
      EXPECT_NE(request["error"], "");
      EXPECT_THAT(run.output(), HasSubstr("request " + request["id"].get<std::string>() + " failed: "));
    }
    EXPECT_EQ(stats["run"]["failed"], failed);
    EXPECT_EQ(status.text(), failed == 0 ? "ended with exit status 0" : "ended with exit status 1")
        << run.output();
  }

  std::vector<std::string> with_stats(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), {"--stats-json", dir_.file("stats.json")});
    return arguments;
  }
};

const std::vector<std::string> kSmall{"--prompt-tokens", "20", "--output-tokens", "10"};

std::vector<std::string> small(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = kSmall;
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST_F(Omni, R25_qwen3_says_routes_sizes_and_times_of_each_edge_and_request) {
  auto run = serve(kQwen3, with_stats({"--log-stats"}));
  EXPECT_TRUE(run.wait().success()) << run.output();
  EXPECT_THAT(run.output(), AllOf(HasSubstr("of qwen3_omni_moe, 1 requests done, 0 failed: 29.52 s of audio"),
                                  HasSubstr("request request-0: 29.52 s of audio"),
                                  HasSubstr("edge 0 -> 1 over omni: route "), HasSubstr("edge 1 -> 2"),
                                  HasSubstr("put to ready p50")));
  const auto stats = statistics();
  EXPECT_EQ(stats["run"]["pipeline"], "qwen3_omni_moe");
  EXPECT_EQ(stats["run"]["requests"], 1);
  EXPECT_NEAR(stats["requests"][0]["audio_s"].get<double>(), 369 / 12.5, 1e-9);
  EXPECT_GT(stats["requests"][0]["time_to_first_packet_ms"].get<double>(), 0);
  EXPECT_GT(stats["requests"][0]["real_time_factor"].get<double>(), 0);
  ASSERT_EQ(stats["edges"].size(), 2U);
  EXPECT_EQ(stats["edges"][0]["chunks"], 100) << "one with the prompt and a row, then a row each";
  EXPECT_EQ(stats["edges"][1]["chunks"], 15) << "369 frames, 25 to a chunk";
  EXPECT_GT(stats["edges"][0]["bytes"], 101 * 2 * 4096 + 99 * 4096);
  EXPECT_GT(stats["edges"][1]["latency_us"]["p99"].get<double>(), 0);
}

TEST_F(Omni, qwen2_5_sends_rows_of_3584_and_codes_at_50_hz) {
  expect_done(serve(kQwen25, with_stats({})), 1);
  const auto stats = statistics();
  EXPECT_NEAR(stats["requests"][0]["audio_s"].get<double>(), 1475 / 50.0, 1e-9);
  EXPECT_EQ(stats["edges"][0]["chunks"], 100);
  EXPECT_GT(stats["edges"][0]["bytes"], 200 * 3584 * 2);
}

TEST_F(Omni, without_async_chunk_each_edge_carries_one_payload_a_request) {
  for (const Line& line : {kQwen3, kQwen25}) {
    SCOPED_TRACE(line.model);
    expect_done(serve(line, with_stats(small({"--requests", "3", "--set", "async_chunk=false"}))), 3);
    const auto stats = statistics();
    EXPECT_EQ(stats["edges"][0]["chunks"], 3);
    EXPECT_EQ(stats["edges"][1]["chunks"], 3);
  }
}

TEST_F(Omni, sixty_four_requests_at_once_arrive_whole) {
  for (const Line& line : {kQwen3, kQwen25}) {
    SCOPED_TRACE(line.model);
    expect_done(serve(line, small({"--requests", "64", "--concurrency", "64", "--seed", "3"})), 64);
  }
}

TEST_F(Omni, R15_a_pool_with_room_for_a_few_chunks_is_enough) {
  expect_done(serve(kQwen3, small({"--requests", "16", "--concurrency", "16", "--set",
                                   "connectors.omni.extra.memory_pool_size=512KiB"})),
              16);
}

TEST_F(Omni, R05_requests_that_cannot_fit_fail_by_name) {
  auto run = serve(kQwen3, with_stats({"--prompt-tokens", "200", "--output-tokens", "2", "--requests", "2",
                                       "--set", "connectors.omni.extra.memory_pool_size=512KiB"}));
  EXPECT_EQ(run.wait().text(), "ended with exit status 1");
  EXPECT_THAT(run.output(), AllOf(HasSubstr("request request-0 failed: stage "),
                                  HasSubstr("request request-1 failed: stage "),
                                  HasSubstr("can never fit the pool of 524288 bytes: raise memory_pool_size"),
                                  HasSubstr("2 of 2 requests failed")));
}

struct Fault {
  const char* name;
  const char* spec;
};
class OmniFaults : public Omni, public ::testing::WithParamInterface<Fault> {};

TEST_P(OmniFaults, R05_end_each_request_as_done_or_as_a_named_error) {
  expect_all_ended(
      serve(kQwen3,
            with_stats(small({"--requests", "12", "--concurrency", "12", "--timeout", "6", "--set",
                              std::string("connectors.omni.extra.fault_spec=\"") + GetParam().spec + "\""}))),
      12);
}

INSTANTIATE_TEST_SUITE_P(
    All, OmniFaults,
    ::testing::Values(Fault{"delay", "delay_ms=1,seed=1"}, Fault{"drop", "drop=0.02,seed=2"},
                      Fault{"fail", "fail=0.02,seed=3"},
                      Fault{"all", "delay_ms=0.2,drop=0.01,fail=0.01,reorder=0.05,seed=4"}),
    [](const auto& test) { return std::string(test.param.name); });

class OmniDeaths : public Omni, public ::testing::WithParamInterface<int> {};

TEST_P(OmniDeaths, R08_a_killed_stage_is_named_and_the_others_end) {
  auto run = serve(kQwen3, {"--rate", "real"});
  const std::vector<pid_t> stages{run.stage(0), run.stage(1), run.stage(2)};
  const pid_t victim = stages[static_cast<std::size_t>(GetParam())];
  ASSERT_TRUE(test::send_signal(victim, SIGKILL));
  EXPECT_EQ(run.wait().text(), "ended with exit status 1");
  EXPECT_THAT(run.output(), HasSubstr("pid " + std::to_string(victim) + ") was killed by signal 9 (Killed)"));
  for (const pid_t stage : stages) EXPECT_EQ(test::state_of(stage), '?') << "it outlived the pipeline";
}

INSTANTIATE_TEST_SUITE_P(EachStage, OmniDeaths, ::testing::Values(0, 1, 2),
                         [](const auto& test) { return "stage_" + std::to_string(test.param); });

TEST_F(Omni, a_trace_is_replayed_chunk_for_chunk) {
  std::string trace;
  const auto add = [&trace](double t_ms, const char* id, const char* stage, const char* unit, int count,
                            bool last) {
    trace +=
        nlohmann::json({{"t_ms", t_ms}, {"request", id}, {"stage", stage}, {unit, count}, {"finished", last}})
            .dump() +
        "\n";
  };
  for (const char* id : {"first", "second"}) {
    add(5, id, "thinker", "rows", 40, false);
    for (int i = 0; i < 9; ++i) add(10 + i, id, "thinker", "rows", 1, i == 8);
    for (int i = 0; i < 60; ++i) add(12 + i, id, "talker", "frames", 1, i == 59);
  }
  test::write_file(dir_.file("run.jsonl"), trace);
  std::vector<nlohmann::json> edges;
  for (const char* rate : {"max", "real", "4"}) {
    expect_done(serve(kQwen3, with_stats({"--trace", dir_.file("run.jsonl"), "--rate", rate})), 2);
    const auto stats = statistics();
    EXPECT_EQ(stats["requests"][1]["id"], "second");
    for (const auto& edge : stats["edges"]) edges.push_back({edge["chunks"], edge["bytes"]});
  }
  EXPECT_EQ(edges[0][0], 2 * 9);
  EXPECT_EQ(edges[1][0], 2 * 3) << "60 frames, 25 to a chunk";
  EXPECT_EQ(edges[2], edges[0]);
  EXPECT_EQ(edges[3], edges[1]);
  EXPECT_EQ(edges[4], edges[0]);
  EXPECT_EQ(edges[5], edges[1]);
}

/// What a trace says of each stage's requests, in their order: counts, and which is the last; without times.
std::map<std::string, std::vector<std::pair<int, bool>>> steps_of(const std::string& trace) {
  std::map<std::string, std::vector<std::pair<int, bool>>> steps;
  std::istringstream lines(trace);
  for (std::string line; std::getline(lines, line);) {
    const auto step = nlohmann::json::parse(line);
    const int count = step.contains("rows") ? step["rows"] : step["frames"];
    steps[step["request"].get<std::string>() + " " + step["stage"].get<std::string>()].emplace_back(
        count, step.value("finished", false));
  }
  return steps;
}

/// The times of each stage's requests, in the order of the requests.
std::vector<double> times_of(const std::string& trace) {
  std::map<std::string, std::vector<double>> times;
  std::istringstream lines(trace);
  for (std::string line; std::getline(lines, line);) {
    const auto step = nlohmann::json::parse(line);
    times[step["request"].get<std::string>() + " " + step["stage"].get<std::string>()].push_back(
        step["t_ms"]);
  }
  std::vector<double> all;
  for (const auto& [stage, its] : times) all.insert(all.end(), its.begin(), its.end());
  return all;
}

TEST_F(Omni, a_recorded_run_is_replayed_step_for_step) {
  const std::string recorded = dir_.file("run.jsonl");
  const std::string again = dir_.file("again.jsonl");
  expect_done(serve(kQwen3, with_stats(small({"--requests", "3", "--concurrency", "2", "--rate", "20",
                                              "--record-trace", recorded}))),
              3);
  const auto first = statistics();
  const auto steps = steps_of(test::read_file(recorded));
  ASSERT_EQ(steps.size(), 6U) << "two stages of three requests";
  const auto& thinker = steps.at("request-2 thinker");
  ASSERT_EQ(thinker.size(), 11U);
  EXPECT_EQ(thinker.front(), std::pair(20, false)) << "the prompt";
  EXPECT_EQ(thinker.back(), std::pair(1, true));
  EXPECT_EQ(steps.at("request-2 talker").size(), 37U);

  expect_done(serve(kQwen3, with_stats({"--trace", recorded, "--rate", "real", "--record-trace", again})), 3);
  const auto second = statistics();
  EXPECT_EQ(steps_of(test::read_file(again)), steps);
  for (const std::size_t edge : {0U, 1U}) {
    EXPECT_EQ(second["edges"][edge]["chunks"], first["edges"][edge]["chunks"]);
    EXPECT_EQ(second["edges"][edge]["bytes"], first["edges"][edge]["bytes"]);
  }
  // It kept to the times: no step came before its time in the recording.
  EXPECT_THAT(times_of(test::read_file(again)),
              ::testing::Pointwise(::testing::Ge(), times_of(test::read_file(recorded))));
}

TEST_F(Omni, a_recording_leaves_out_requests_that_failed) {
  const std::string recorded = dir_.file("run.jsonl");
  const std::vector<std::string> tight{"--set", "connectors.omni.extra.memory_pool_size=512KiB",
                                       "--record-trace", recorded};
  const auto add = [](double t_ms, const char* id, const char* stage, const char* unit, int count,
                      bool last) {
    return nlohmann::json(
               {{"t_ms", t_ms}, {"request", id}, {"stage", stage}, {unit, count}, {"finished", last}})
               .dump() +
           "\n";
  };
  std::string trace;
  for (const auto& [id, prompt] : {std::pair("large", 200), std::pair("small", 20)}) {
    trace += add(0, id, "thinker", "rows", prompt, false) + add(1, id, "thinker", "rows", 1, true) +
             add(2, id, "talker", "frames", 1, true);
  }
  test::write_file(dir_.file("in.jsonl"), trace);
  std::vector<std::string> arguments{"--trace", dir_.file("in.jsonl")};
  arguments.insert(arguments.end(), tight.begin(), tight.end());
  auto run = serve(kQwen3, arguments);
  EXPECT_EQ(run.wait().text(), "ended with exit status 1");
  const auto steps = steps_of(test::read_file(recorded));
  EXPECT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps.count("small thinker"), 1U);
  std::filesystem::remove(recorded);

  std::vector<std::string> none{"--prompt-tokens", "200", "--output-tokens", "2"};
  none.insert(none.end(), tight.begin(), tight.end());
  auto failing = serve(kQwen3, none);
  EXPECT_EQ(failing.wait().text(), "ended with exit status 1");
  EXPECT_FALSE(std::filesystem::exists(recorded)) << "no request is no trace";
}

TEST_F(Omni, a_recording_is_an_output_like_the_others) {
  const std::string trace = dir_.file("in.jsonl");
  test::write_file(trace, R"({"t_ms": 0, "request": "a", "stage": "thinker", "rows": 2})"
                          "\n"
                          R"({"t_ms": 1, "request": "a", "stage": "thinker", "rows": 1, "finished": true})"
                          "\n"
                          R"({"t_ms": 2, "request": "a", "stage": "talker", "frames": 1, "finished": true})"
                          "\n");
  const std::string before = test::read_file(trace);
  const std::string file = dir_.file("run.jsonl");
  expect_usage_error(serve(kQwen3, {"--trace", trace, "--record-trace", trace}), "which this run reads");
  EXPECT_EQ(test::read_file(trace), before);
  expect_usage_error(serve(kQwen3, {"--record-trace", file, "--stats-json", file}), "are the same file");
  expect_usage_error(serve(kQwen3, {"--record-trace", dir_.file("none/run.jsonl")}), "none/run.jsonl");
  expect_usage_error(serve(kQwen3, {"--record-trace", ""}), "--record-trace \"\" names no file");
  expect_usage_error(serve(kQwen3, {"--record-trace", file, "--requests", "100000"}),
                     "--trace reads at most 268435456: record fewer or shorter requests");
  expect_usage_error(start(example(), {"--record-trace", file}),
                     "--record-trace is for the replay of a model");
  EXPECT_FALSE(std::filesystem::exists(file));

  test::write_file(dir_.file("linked.jsonl"), "what was there before");
  std::filesystem::create_symlink("linked.jsonl", file);
  expect_done(serve(kQwen3, {"--trace", trace, "--record-trace", file}), 1);
  EXPECT_TRUE(std::filesystem::is_symlink(file));
  EXPECT_EQ(steps_of(test::read_file(dir_.file("linked.jsonl"))), steps_of(before));
}

TEST_F(Omni, a_recording_that_cannot_be_put_in_its_place_fails_the_run) {
  std::filesystem::create_directory(dir_.path() / "gone");
  auto run = serve(kQwen3, small({"--record-trace", dir_.file("gone/run.jsonl"), "--rate", "real"}));
  const pid_t thinker = run.stage(0);
  ASSERT_TRUE(test::send_signal(thinker, SIGSTOP));
  std::filesystem::remove(dir_.path() / "gone");
  ASSERT_TRUE(test::send_signal(thinker, SIGCONT));
  EXPECT_EQ(run.wait().text(), "ended with exit status 1") << run.output();
  EXPECT_THAT(run.output(), HasSubstr("cannot write " + dir_.file("gone/run.jsonl")));
}

TEST_F(Omni, active_stream_window_holds_back_what_is_beyond_it) {
  const std::vector<std::string> four = small({"--requests", "4", "--concurrency", "4"});
  for (const auto& [window, held] : {std::pair("0", 0), std::pair("1", 3), std::pair("3", 1)}) {
    SCOPED_TRACE(window);
    std::vector<std::string> arguments = with_stats(four);
    arguments.insert(arguments.end(), {"--set", std::string("active_stream_window=") + window});
    expect_done(serve(kQwen3, arguments), 4);
    const nlohmann::json report = statistics();  // the loop below does not keep a temporary
    for (const auto& edge : report["edges"]) EXPECT_EQ(edge["most_held"], held);
  }
}

TEST_F(Omni, a_bad_trace_is_refused_with_its_line) {
  test::write_file(dir_.file("bad.jsonl"), "{\"t_ms\": 1, \"request\": \"a\", \"stage\": \"thinker\"}\n");
  expect_usage_error(serve(kQwen3, {"--trace", dir_.file("bad.jsonl")}),
                     dir_.file("bad.jsonl") + ":1: \"rows\" is missing");
  expect_usage_error(serve(kQwen3, {"--trace", dir_.file("none.jsonl")}),
                     "cannot read " + dir_.file("none.jsonl"));
  expect_usage_error(serve(kQwen3, {"--trace", dir_.file("bad.jsonl"), "--requests", "2"}),
                     "--requests follows from the file of --trace");
}

TEST_F(Omni, bad_command_lines_say_what_to_do) {
  const std::string file = STAGEWIRE_SOURCE_DIR "/deploy/qwen3_omni_moe_cpu.yaml";
  const auto start_with = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--deploy-config", file});
    return ServeProcess(arguments, dir_.file("tmp"));
  };
  expect_usage_error(start_with({"--omni"}), "--omni needs the name of the model");
  expect_usage_error(start_with({kQwen3.model}), "is served with --omni: add it");
  expect_usage_error(start_with({"Qwen/Qwen3-8B", "--omni"}),
                     "there are: Qwen/Qwen3-Omni-30B-A3B-Instruct, Qwen/Qwen2.5-Omni-7B");
  expect_usage_error(start_with({"--input", "a.wav", "--output", "b.wav", "--requests", "2"}),
                     "--requests is for the replay of a model");
  expect_usage_error(start_with({}), "a model is replayed with its name and --omni");
  expect_usage_error(serve(kQwen3, {"--input", "a.wav"}), "--input is for pipelines from file to file");
  expect_usage_error(serve(kQwen3, {"--set", "pipeline=qwen2_5_omni"}), "pipeline: qwen2_5_omni");
  expect_usage_error(serve(kQwen3, {"--requests", "0"}), "--requests is 0, it must be 1 to");
  expect_usage_error(serve(kQwen3, {"--requests", "-1"}), "--requests");
  expect_usage_error(serve(kQwen3, {"--output-tokens", "1000000"}), "it must be 1 to 100000");
  expect_usage_error(serve(kQwen3, {"--rate", "0"}), "neither max nor real, nor a factor");
  expect_usage_error(serve(kQwen3, {"--set", "connectors.omni.extra.codec_chunk_frames=0"}),
                     "codec_chunk_frames");
}

TEST_F(Omni, the_pipeline_may_be_named_in_the_deploy_file) {
  ServeProcess run({"--deploy-config", std::string(STAGEWIRE_SOURCE_DIR "/deploy/") + kQwen25.file, "--set",
                    "pipeline=qwen2_5_omni", "--prompt-tokens", "5", "--output-tokens", "2"},
                   dir_.file("tmp"));
  expect_done(std::move(run), 1);
}

TEST_F(Omni, R14_without_an_amd_gpu_the_file_for_cpus_is_named) {
  ServeProcess run({kQwen3.model, "--omni", "--deploy-config",
                    STAGEWIRE_SOURCE_DIR "/deploy/qwen3_omni_moe_mori_intranode.yaml"},
                   dir_.file("tmp"));
  EXPECT_EQ(run.wait().text(), "ended with exit status 2");
  EXPECT_THAT(run.output(), AllOf(HasSubstr("xgmi cannot be used: "), HasSubstr("AMD GPU"),
                                  HasSubstr("qwen3_omni_moe_cpu.yaml has the same stages without a GPU")));
}

}  // namespace
}  // namespace stagewire
