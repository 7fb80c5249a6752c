// Nodes of one run that do not come together: nobody there, too many, or of another mind.
#include "process/nodes_fixture.hpp"

namespace stagewire {
namespace {

using test::ServeProcess;
using ::testing::HasSubstr;

class NodesMeeting : public test::NodesTest {
 protected:
  /// A node that the master must refuse, and what both say. The run of the others then goes its way.
  void expect_refused(const std::string& stages, const Words& more, const std::string& words) {
    ServeProcess first = master(small({"--requests", "2"}));
    const int port = port_of(first);
    ServeProcess second = node("1", port);
    first.wait_for("stage 1) is there");
    ServeProcess refused = node(stages, port, more);
    expect_error(refused, "the master at 127.0.0.1:" + std::to_string(port) + " refuses this node: ");
    EXPECT_THAT(refused.output(), HasSubstr(words));
    first.wait_for("refused node ");
    EXPECT_THAT(first.output(), HasSubstr(words));
    ServeProcess third = node("2", port);
    expect_success(first);
    expect_success(second);
    expect_success(third);
  }
};

TEST_F(NodesMeeting, a_node_that_never_comes_ends_the_wait_with_the_stages_that_miss_it) {
  ServeProcess first = master(small({"--omni-start-timeout", "2"}));
  ServeProcess second = node("1", port_of(first));
  const std::string words = "timeout: stage 2 did not come within 2000 ms (--omni-start-timeout)";
  expect_error(first, words);
  expect_error(second, words);
}

TEST_F(NodesMeeting, R09_a_node_that_dies_before_the_start_may_come_again) {
  ServeProcess first = master(small());
  const int port = port_of(first);
  ServeProcess dying = node("1", port);
  first.wait_for("stage 1) is there");
  ASSERT_TRUE(test::send_signal(dying.pid(), SIGKILL));
  first.wait_for("(pid " + std::to_string(dying.pid()) + ", stage 1): its connection has ended");
  ServeProcess second = node("1", port);
  ServeProcess third = node("2", port);
  expect_success(first);
  expect_success(second);
  expect_success(third);
  dying.wait();
}

TEST_F(NodesMeeting, a_master_that_is_not_there_is_waited_for_until_the_deadline) {
  ServeProcess probe = master({"--omni-start-timeout", "0.2"});
  const int port = port_of(probe);
  probe.wait();
  ServeProcess second = node("1,2", port, {"--omni-start-timeout", "0.5"});
  expect_error(second, "timeout: the master at 127.0.0.1:" + std::to_string(port) +
                           " did not answer within 500 ms (--omni-start-timeout)");
}

TEST_F(NodesMeeting, R12_a_port_in_use_is_told_with_its_owner_and_nothing_is_started) {
  ServeProcess first = master(small());
  const int port = port_of(first);
  ServeProcess other = node("0", port);
  expect_error(other, "the port is in use by pid " + std::to_string(first.pid()), 2);
  ServeProcess second = node("1,2", port);
  expect_success(first);
  expect_success(second);
}

TEST_F(NodesMeeting, a_stage_that_somebody_runs_is_refused) {
  expect_refused("1,2", {}, "stage 1 is run by node ");
}

TEST_F(NodesMeeting, another_deploy_file_is_refused) {
  expect_refused("2", {"--set", "connectors.omni.extra.codec_chunk_frames=26"},
                 "its deploy file says other things than the master's of stage 0, stage 1, stage 2");
}

TEST_F(NodesMeeting, another_replay_is_refused) {
  expect_refused("2", {"--requests", "3"}, "--requests is 3 there and 2 at the master");
}

TEST_F(NodesMeeting, a_trace_must_be_the_masters) {
  const auto line = [](const char* stage, const char* unit) {
    return nlohmann::json({{"t_ms", 1}, {"request", "a"}, {"stage", stage}, {unit, 2}, {"finished", true}})
               .dump() +
           "\n";
  };
  test::write_file(dir_.file("trace"), line("thinker", "rows") + line("talker", "frames"));
  test::write_file(dir_.file("copy"), test::read_file(dir_.file("trace")));
  test::write_file(dir_.file("other"), test::read_file(dir_.file("trace")) + "\n");
  {
    ServeProcess first = master({"--trace", dir_.file("trace")});
    const int port = port_of(first);
    ServeProcess second = node("1", port, {"--trace", dir_.file("copy")});
    ServeProcess third = node("2", port);
    expect_success(first);
    expect_success(second);
    expect_success(third);
  }
  ServeProcess first = master({"--trace", dir_.file("trace"), "--omni-start-timeout", "2"});
  ServeProcess second = node("1,2", port_of(first), {"--trace", dir_.file("other")});
  expect_error(second, "--trace is a file with the digest ");
  expect_error(first, "stages 1, 2 did not come");
}

TEST_F(NodesMeeting, bad_command_lines_say_what_to_do) {
  const auto expect_usage = [this](const std::string& stages, const Words& more, const std::string& words) {
    ServeProcess run = node(stages, 1, more);
    expect_error(run, words, 2);
  };
  expect_usage("3", {}, "there is no stage 3, the plan has stages 0, 1, 2");
  expect_usage("1,1", {}, "stage 1 is named twice");
  expect_usage("0", {"--headless"}, "whoever runs stage 0 is the master and cannot be headless");
  expect_usage("1", {"--stats-json", dir_.file("s")}, "the statistics are the master's, who runs stage 0");
  expect_usage("1", {"--insecure", "--secret-file", "f"}, "contradict each other");
  expect_usage("1", {"--secret-file", dir_.file("none")}, "cannot read the secret file ");
  ServeProcess no_port = node("1", 0);
  expect_error(no_port, "the master's port is 0, it must be 1 to 65535", 2);
  ServeProcess no_master(
      {"Qwen/Qwen3-Omni-30B-A3B-Instruct", "--omni", "--deploy-config", cpu_file(), "--stage-id", "1"},
      dir_.file("tmp"));
  expect_error(no_master, "--stage-id needs --omni-master-address", 2);
  ServeProcess no_stage(
      {"Qwen/Qwen3-Omni-30B-A3B-Instruct", "--omni", "--deploy-config", cpu_file(), "-oma=a"},
      dir_.file("tmp"));
  expect_error(no_stage, "--omni-master-address is for runs over several hosts", 2);
  ServeProcess speech({"--deploy-config", deploy_file(), "--input", example(), "--output", output(),
                       "--stage-id", "0", "-oma", "127.0.0.1", "-omp", "0"},
                      dir_.file("tmp"));
  expect_error(speech, "only replays run on several", 2);
}

}  // namespace
}  // namespace stagewire
