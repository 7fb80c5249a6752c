// stagewire check, the program: what it prints where, and its exit status.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "stagewire/deploy.hpp"
#include "support/temp_dir.hpp"
#include "support/wav_bytes.hpp"

namespace stagewire {
namespace {

using ::testing::HasSubstr;

class Check : public ::testing::Test {
 protected:
  struct Run {
    int status = -1;
    std::string out;
    std::string err;
  };

  /// Arguments as a shell takes them.
  Run check(const std::string& arguments) const {
    const std::string out = dir_.file("out");
    const std::string err = dir_.file("err");
    const std::string command =
        STAGEWIRE_BINARY_DIR "/stagewire check " + arguments + " >" + out + " 2>" + err + " </dev/null";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, test::read_file(out), test::read_file(err)};
  }

  std::string file(const std::string& text) const {
    test::write_file(dir_.file("deploy.yaml"), text);
    return dir_.file("deploy.yaml");
  }

  test::TempDir dir_;
};

const std::string kSpeech = STAGEWIRE_SOURCE_DIR "/deploy/speech_intranode.yaml";

TEST_F(Check, prints_the_plan_for_people) {
  const Run run = check(kSpeech);
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.err, "");
  EXPECT_THAT(run.out, HasSubstr(kSpeech + ": 3 stages, 2 edges, in chunks\n"));
  EXPECT_THAT(run.out,
              HasSubstr("stage 1: dual, binds 127.0.0.1 any port, upstream at 127.0.0.1 (port through the "
                        "pipeline)\n"));
  EXPECT_THAT(run.out,
              HasSubstr("1 -> 2: speech (MoriTransferEngineConnector), 127.0.0.1 any port\n    route shm"));
}

TEST_F(Check, prints_the_plan_for_programs) {
  const Run run = check("--format json --set connectors.speech.extra.zmq_port=50051 " + kSpeech);
  EXPECT_EQ(run.status, 0) << run.err;
  const auto plan = nlohmann::json::parse(run.out);
  EXPECT_EQ(plan["ok"], true);
  EXPECT_EQ(plan["stages"].size(), 3U);
  EXPECT_EQ(plan["stages"][1]["connector"]["role"], "dual");
  EXPECT_EQ(plan["stages"][1]["connector"]["zmq_port"], 50052);
  EXPECT_EQ(plan["edges"][1]["port"], 50052);
  EXPECT_EQ(plan["stages"][0]["chunk_options"]["codec_chunk_frames"], 25);
}

TEST_F(Check, R14_every_error_goes_to_stderr_and_the_status_is_2) {
  const std::string bad = file("async_chunk: yes\nstages: []\nstage: []\n");
  const std::string errors =
      bad + ":1:14: error: async_chunk: expected true or false, found `yes`: write true\n" + bad +
      ":3:1: error: stage: unknown key; did you mean stages?\n" + bad + ": 2 errors\n";
  const Run text = check(bad);
  EXPECT_EQ(text.status, 2);
  EXPECT_EQ(text.out, "");
  EXPECT_EQ(text.err, errors);
  const Run json = check("--format json " + bad);
  EXPECT_EQ(json.status, 2);
  EXPECT_EQ(json.err, errors);
  const auto report = nlohmann::json::parse(json.out);
  EXPECT_EQ(report["ok"], false);
  EXPECT_EQ(report["diagnostics"][1]["line"], 3);
  EXPECT_EQ(report["diagnostics"][1]["path"], "stage");
}

TEST_F(Check, overrides_and_platform_reach_the_plan) {
  const std::string good = file(
      "stages: [{stage_id: 0, devices: \"0\"}, {stage_id: 1}]\n"
      "platforms: {rocm: {stages: [{stage_id: 0, devices: \"4\"}]}}\n");
  EXPECT_THAT(check(good).out, HasSubstr("stage 0, devices 0: no edge"));
  EXPECT_THAT(check("--platform rocm " + good).out, HasSubstr("stage 0, devices 4: no edge"));
  EXPECT_THAT(check("--set stages.0.devices=5 --set stages.1.devices=6 --platform rocm " + good).out,
              HasSubstr("stage 0, devices 5: no edge\n  stage 1, devices 6: no edge"));
}

TEST_F(Check, wrong_command_lines_are_usage_errors) {
  for (const char* arguments : {"", "--format xml x.yaml", "--no-such-option", "a.yaml b.yaml"}) {
    const Run run = check(arguments);
    EXPECT_EQ(run.status, 2) << arguments;
    EXPECT_NE(run.err, "") << arguments;
  }
  EXPECT_EQ(check("/nowhere/x.yaml").err,
            "/nowhere/x.yaml: error: cannot open /nowhere/x.yaml: No such file or "
            "directory (errno 2)\n/nowhere/x.yaml: 1 error\n");
}

TEST_F(Check, reference_is_the_library_s) {
  const Run run = check("--reference");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(run.out == deploy_reference());
}

}  // namespace
}  // namespace stagewire
