// stagewire serve, the program, from its arguments to its exit status.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bit>
#include <nlohmann/json.hpp>

#include "pipeline/speech/reference.hpp"
#include "process/serve_process.hpp"

namespace stagewire {
namespace {

using test::eventually;
using test::ServeProcess;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Serve : public test::ServeTest {
 protected:
  /// The bytes that the output must have.
  static std::string expected(const std::string& input) {
    const auto values = pipeline::speech::code_in_one_process(input);
    EXPECT_TRUE(values.ok()) << values.error().to_string();
    return test::wav_file({}, test::pcm16_bytes(*values));
  }

  void expect_success(ServeProcess& serve, const std::string& input) {
    const auto status = serve.wait();
    EXPECT_TRUE(status.success()) << status.text() << "\n" << serve.output();
    EXPECT_TRUE(test::read_file(output()) == expected(input)) << "the output is not what one process makes";
  }

  /// It fails before it starts anything, with one line that has these words.
  void expect_usage_error(ServeProcess serve, const std::string& words) {
    const auto status = serve.wait();
    EXPECT_EQ(status.text(), "ended with exit status 2");
    EXPECT_THAT(serve.output(), HasSubstr(words));
    EXPECT_EQ(std::count(serve.output().begin(), serve.output().end(), '\n'), 1) << serve.output();
    EXPECT_FALSE(std::filesystem::exists(output()));
  }

  void expect_run_error(ServeProcess& serve, const std::string& words) {
    const auto status = serve.wait();
    EXPECT_EQ(status.text(), "ended with exit status 1");
    EXPECT_THAT(serve.output(), HasSubstr(words));
    EXPECT_FALSE(std::filesystem::exists(output())) << "partial output presented as whole";
  }

  ServeProcess start_with_input(const std::string& bytes) const {
    test::write_file(dir_.file("in.wav"), bytes);
    return start(dir_.file("in.wav"));
  }
};

const std::vector<std::string> kRealTime{"--rate", "real"};

TEST_F(Serve, the_output_is_bit_identical_to_one_process) {
  auto serve = start(example());
  expect_success(serve, example());
  EXPECT_THAT(serve.output(), HasSubstr("wrote " + output() + ": 14.65 s of audio"));
}

TEST_F(Serve, R25_statistics_name_route_sizes_and_times_of_each_edge) {
  auto serve = start(example(), {"--log-stats", "--stats-json", dir_.file("stats.json")});
  expect_success(serve, example());
  EXPECT_THAT(serve.output(), AllOf(HasSubstr("edge 0 -> 1 over speech: route "), HasSubstr("edge 1 -> 2"),
                                    HasSubstr("put to ready p50"), HasSubstr("first packet after")));
  const auto stats = nlohmann::json::parse(test::read_file(dir_.file("stats.json")));
  EXPECT_NEAR(stats["request"]["audio_s"].get<double>(), 234'402 / 16'000.0, 1e-9);
  EXPECT_GT(stats["request"]["time_to_first_packet_ms"].get<double>(), 0);
  EXPECT_GT(stats["request"]["real_time_factor"].get<double>(), 0);
  ASSERT_EQ(stats["edges"].size(), 2U);
  EXPECT_EQ(stats["edges"][0]["chunks"], 147) << "733 frames, five to a chunk";
  EXPECT_EQ(stats["edges"][1]["chunks"], 31) << "5 frames, then 25 to a chunk";
  for (const auto& edge : stats["edges"]) {
    std::uint64_t chunks = 0;
    std::uint64_t bytes = 0;
    for (const auto& route : edge["routes"]) {
      chunks += route["chunks"].get<std::uint64_t>();
      bytes += route["bytes"].get<std::uint64_t>();
    }
    EXPECT_EQ(chunks, edge["chunks"].get<std::uint64_t>());
    EXPECT_EQ(bytes, edge["bytes"].get<std::uint64_t>());
    EXPECT_NE(edge["route_reason"], "");
    EXPECT_GT(edge["mb_per_s"].get<double>(), 0);
    EXPECT_GT(edge["latency_us"]["p50"].get<double>(), 0);
    EXPECT_GE(edge["latency_us"]["p99"].get<double>(), edge["latency_us"]["p90"].get<double>());
  }
}

TEST_F(Serve, stereo_float_input_and_an_output_that_exists) {
  std::string audio;
  for (int i = 0; i < 2 * 48'000; ++i)
    audio += test::little_endian(std::bit_cast<std::uint32_t>(static_cast<float>(i % 200) / 400), 4);
  const test::WavFields fields{.format = 3, .channels = 2, .sample_rate = 48'000, .bits = 32};
  test::write_file(dir_.file("in.wav"), test::wav_file(fields, audio));
  test::write_file(output(), "before");
  auto serve = start(dir_.file("in.wav"));
  EXPECT_TRUE(serve.wait().success()) << serve.output();
  const auto values = pipeline::speech::code_in_one_process(dir_.file("in.wav"));
  EXPECT_TRUE(test::read_file(output()) ==
              test::wav_file({.channels = 2, .sample_rate = 48'000}, test::pcm16_bytes(*values)));
}

TEST_F(Serve, R15_a_pool_with_room_for_a_few_chunks_is_enough) {
  auto serve = start(example(), {"--set", "connectors.speech.extra.memory_pool_size=64KiB"});
  expect_success(serve, example());
}

TEST_F(Serve, bad_input_files_are_refused) {
  expect_usage_error(start(dir_.file("none.wav")), dir_.file("none.wav") + ": No such file");
  const std::string whole = test::read_file(example());
  expect_usage_error(start_with_input(whole.substr(0, whole.size() / 2)), "the file is truncated");
  expect_usage_error(start_with_input(""), "the file is empty (0 bytes)");
  expect_usage_error(start_with_input(test::wav_file({}, "")), "has no audio");
  expect_usage_error(start_with_input("no audio here, only words"), "not a WAV file");
  expect_usage_error(start_with_input(test::wav_file({.format = 7, .bits = 8}, "abcd")),
                     "not PCM (WAVE format 7)");
  expect_usage_error(start_with_input(test::wav_file({.sample_rate = 44'100}, "abcd")),
                     "not 44100 Hz; convert it");
}

TEST_F(Serve, an_output_that_cannot_be_written_is_refused) {
  const auto start_with_output = [this](const std::string& path) {
    return ServeProcess({"--deploy-config", deploy_file(), "--input", example(), "--output", path},
                        dir_.file("tmp"));
  };
  expect_usage_error(start_with_output(dir_.file("none/out.wav")),
                     "cannot write " + dir_.file("none/out.wav"));
  expect_usage_error(start_with_output(dir_.path().string()), "no regular file");
  expect_usage_error(start_with_output("/proc/out.wav"), "cannot write /proc/out.wav");
  expect_usage_error(start(example(), {"--stats-json", dir_.file("none/stats.json")}), "none/stats.json");
}

TEST_F(Serve, an_output_that_is_an_input_or_the_other_output_is_refused) {
  const std::string input = short_example(0.5);
  const std::string base = dir_.file("base.yaml");
  const std::string deploy = dir_.file("deploy.yaml");
  test::write_file(base, test::read_file(deploy_file()));
  test::write_file(deploy, "base_config: base.yaml\n");
  std::filesystem::create_hard_link(input, dir_.file("hard.wav"));
  std::filesystem::create_symlink("deploy.yaml", dir_.file("soft.yaml"));
  std::filesystem::create_symlink("out.wav", dir_.file("soft.wav"));
  const auto start_with = [&](const std::string& output_name, const std::string& stats_name) {
    return ServeProcess(
        {"--deploy-config", deploy, "--input", input, "--output", output_name, "--stats-json", stats_name},
        dir_.file("tmp"));
  };
  const std::string stats = dir_.file("stats.json");
  for (const std::string& written : {input, dir_.file("hard.wav"), deploy, dir_.file("soft.yaml"), base}) {
    const std::string before = test::read_file(written);
    expect_usage_error(start_with(written, stats), "which this run reads");
    expect_usage_error(start_with(output(), written), "which this run reads");
    EXPECT_EQ(test::read_file(written), before);
  }
  // A base that only the command line names.
  const std::string overridden = dir_.file("overridden.yaml");
  test::write_file(overridden, test::read_file(deploy_file()));
  for (const char* option : {"--output", "--stats-json"}) {
    std::vector<std::string> arguments{
        "--deploy-config", deploy, "--input", input, "--set", "base_config=overridden.yaml", option,
        overridden};
    if (option != std::string("--output")) arguments.insert(arguments.end(), {"--output", output()});
    expect_usage_error(ServeProcess(arguments, dir_.file("tmp")), "which this run reads");
    EXPECT_EQ(test::read_file(overridden), test::read_file(deploy_file()));
  }
  expect_usage_error(start_with(output(), output()), "are the same file");
  expect_usage_error(start_with(output(), dir_.path().string() + "/./out.wav"), "are the same file");
  expect_usage_error(start_with(output(), dir_.file("soft.wav")), "are the same file");
  expect_usage_error(start_with(output(), ""), "--stats-json \"\" names no file");
}

TEST_F(Serve, R15_pools_that_do_not_fit_together_are_refused_before_anything_is_started) {
  std::ifstream meminfo("/proc/meminfo");
  std::uint64_t kib = 0;
  for (std::string line; std::getline(meminfo, line);)
    if (line.starts_with("MemAvailable:")) std::istringstream(line.substr(line.find(' '))) >> kib;
  ASSERT_GT(kib, 0U);
  const std::uint64_t half = kib * 1024 / 2;
  expect_usage_error(
      start(example(), {"--set", "connectors.speech.extra.memory_pool_size=" + std::to_string(half)}),
      "together (pools of ");
}

TEST_F(Serve, bad_command_lines_are_refused) {
  const auto start_with = [this](const std::vector<std::string>& arguments) {
    return ServeProcess(arguments, dir_.file("tmp"));
  };
  expect_usage_error(start_with({}), "is required");
  expect_usage_error(start(example(), {"--fly"}), "--fly");
  expect_usage_error(start(example(), {"--rate", "slow"}), "--rate");
  expect_usage_error(start(example(), {"--timeout", "0"}), "--timeout");
  expect_usage_error(start(example(), {"--timeout", "soon"}), "--timeout");
  expect_usage_error(start(example(), {"--timeout", "nan"}), "--timeout");
  auto help = start_with({"--help"});
  EXPECT_TRUE(help.wait().success());
  EXPECT_THAT(help.output(), AllOf(HasSubstr("--deploy-config"), HasSubstr("--stats-json")));
}

TEST_F(Serve, R14_bad_deploy_files_are_refused) {
  const std::string yaml = test::read_file(deploy_file());
  const auto start_with_yaml = [&](const std::string& from, const std::string& to) {
    std::string text = yaml;
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    test::write_file(dir_.file("deploy.yaml"), text);
    return ServeProcess(
        {"--deploy-config", dir_.file("deploy.yaml"), "--input", example(), "--output", output()},
        dir_.file("tmp"));
  };
  const auto expect_refused = [&](ServeProcess serve, const std::string& words) {
    EXPECT_EQ(serve.wait().text(), "ended with exit status 2") << words;
    EXPECT_THAT(serve.output(), AllOf(HasSubstr("error: "), HasSubstr(words)));
    EXPECT_FALSE(std::filesystem::exists(output()));
  };
  expect_refused(
      ServeProcess({"--deploy-config", dir_.file("none.yaml"), "--input", example(), "--output", output()},
                   dir_.file("tmp")),
      "none.yaml");
  expect_refused(start_with_yaml("to_stage_2: speech", "to_stage_2: speach"), "speach");
  expect_refused(start_with_yaml("stage_id: 2", "stage_id: 1"), "deploy.yaml:");
  expect_refused(start_with_yaml("to_stage_2: speech", "to_stage_3: speech"), "3");
  expect_refused(start_with_yaml("to_stage_2: speech", "to_stage_1: speech"), "deploy.yaml:");
  expect_refused(start_with_yaml("memory_pool_size: 64MiB", "memory_pool_size: lots"), "lots");
  expect_refused(start(example(), {"--set", "connectors.speech.extra.backend_type=xgmi"}), "xgmi");
  expect_refused(start(example(), {"--set", "connectors.speech.extra.codec_chunk_frames=0"}),
                 "codec_chunk_frames");
  expect_refused(start(example(), {"--set", "pipeline=bagel"}), "set `pipeline` to one of: speech");
}

TEST_F(Serve, R12_a_port_that_is_taken_ends_the_run_and_is_named) {
  const int taken = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  // Below those that the system gives to whoever asks for any: the next two, of the other stages, stay free.
  for (std::uint16_t low = 20'000; address.sin_port == 0 && low < 30'000; low += 10) {
    sockaddr_in candidate = address;
    candidate.sin_port = htons(low);
    if (::bind(taken, reinterpret_cast<const sockaddr*>(&candidate), sizeof candidate) == 0)
      address = candidate;
  }
  ASSERT_NE(address.sin_port, 0);
  ASSERT_EQ(::listen(taken, 1), 0);
  const std::string port = std::to_string(ntohs(address.sin_port));
  // The first stage binds the base port itself (docs/config.md).
  auto serve = start(example(), {"--set", "connectors.speech.extra.zmq_port=" + port});
  expect_run_error(serve, port);
  EXPECT_THAT(serve.output(), HasSubstr("stage 0 (reader"));
  ::close(taken);
}

/// The stage that something happens to.
class ServeFaults : public Serve, public ::testing::WithParamInterface<int> {};

TEST_P(ServeFaults, R08_a_killed_stage_is_named_and_the_others_end) {
  auto serve = start(example(), kRealTime);
  serve.wait_for_audio(2);
  const std::vector<pid_t> stages{serve.stage(0), serve.stage(1), serve.stage(2)};
  const pid_t victim = stages[static_cast<std::size_t>(GetParam())];
  ASSERT_TRUE(test::send_signal(victim, SIGKILL));
  expect_run_error(serve, "stage " + std::to_string(GetParam()) + " (");
  EXPECT_THAT(serve.output(),
              HasSubstr("pid " + std::to_string(victim) + ") was killed by signal 9 (Killed)"));
  for (const pid_t stage : stages) EXPECT_EQ(test::state_of(stage), '?') << "it outlived the pipeline";
}

TEST_P(ServeFaults, R01_R03_a_stopped_stage_goes_on_where_it_was) {
  const std::string input = short_example(2);
  auto serve = start(input, kRealTime);
  serve.wait_for_audio(2);
  const pid_t stage = serve.stage(GetParam());
  ASSERT_TRUE(test::send_signal(stage, SIGSTOP));
  ASSERT_TRUE(eventually([stage] { return test::state_of(stage) == 'T'; }));
  // The others go on in real time: by then they have come to the end, or wait for the stopped one.
  std::this_thread::sleep_for(std::chrono::seconds(3));
  EXPECT_EQ(test::state_of(serve.pid()), 'S') << "the pipeline waits";
  ASSERT_TRUE(test::send_signal(stage, SIGCONT));
  expect_success(serve, input);
}

TEST_P(ServeFaults, R05_a_stage_that_stays_stopped_ends_the_run_at_the_timeout_and_is_named) {
  auto serve = start(example(), {"--rate", "real", "--timeout", "6"});
  serve.wait_for_audio(2);
  ASSERT_TRUE(test::send_signal(serve.stage(GetParam()), SIGSTOP));
  expect_run_error(serve, "error: timeout: stage " + std::to_string(GetParam()) + " (");
  EXPECT_THAT(serve.output(), HasSubstr("is stopped, by SIGSTOP or a debugger"));
}

INSTANTIATE_TEST_SUITE_P(EachStage, ServeFaults, ::testing::Values(0, 1, 2),
                         [](const auto& test) { return "stage_" + std::to_string(test.param); });

TEST_F(Serve, interrupts_end_it_cleanly) {
  for (const auto& [signal, name] : {std::pair(SIGINT, "SIGINT"), std::pair(SIGTERM, "SIGTERM")}) {
    auto serve = start(example(), kRealTime);
    serve.wait_for_audio(2);
    ASSERT_TRUE(test::send_signal(serve.pid(), signal));
    expect_run_error(serve, std::string("interrupted by ") + name);
  }
}

TEST_F(Serve, R08_nothing_is_left_when_it_is_killed_itself) {
  auto serve = start(example(), kRealTime);
  serve.wait_for_audio(2);
  const std::vector<pid_t> stages{serve.stage(0), serve.stage(1), serve.stage(2)};
  ASSERT_TRUE(test::send_signal(serve.pid(), SIGKILL));
  EXPECT_EQ(serve.wait().text(), "was killed by signal 9 (Killed)");
  for (const pid_t stage : stages) {
    EXPECT_TRUE(eventually([stage] { return test::state_of(stage) == '?' || test::state_of(stage) == 'Z'; }));
  }
  EXPECT_FALSE(std::filesystem::exists(output()));
}

}  // namespace
}  // namespace stagewire
