// A replay whose stages are run by several `stagewire serve` on this host, who find each other through the
// master: how it goes, and how it ends when one of them fails.
#include "process/nodes_fixture.hpp"

namespace stagewire {
namespace {

using test::ServeProcess;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Nodes : public test::NodesTest {};

TEST_F(Nodes, three_nodes_replay_what_one_host_does_with_every_byte_checked) {
  const Words replay = small({"--requests", "8", "--concurrency", "4", "--seed", "3"});
  ServeProcess alone(
      join({"Qwen/Qwen3-Omni-30B-A3B-Instruct", "--omni", "--deploy-config", cpu_file(), "--set",
            "connectors.omni.extra.memory_pool_size=64MiB", "--stats-json", dir_.file("stats.json")},
           replay),
      dir_.file("tmp"));
  expect_success(alone);
  const auto expected = statistics();

  ServeProcess first = master(join(replay, {"--log-stats", "--stats-json", dir_.file("stats.json")}));
  const int port = port_of(first);
  ServeProcess second = node("1", port);
  ServeProcess third = node("2", port, {"--headless"});
  expect_success(first);
  expect_success(second);
  expect_success(third);
  EXPECT_THAT(first.output(), AllOf(HasSubstr("replayed 8 requests, "), HasSubstr("every byte checked"),
                                    HasSubstr("edge 0 -> 1 over omni: route "), HasSubstr("edge 1 -> 2")));
  EXPECT_THAT(second.output(), HasSubstr("this node's part of 8 requests is done, "));
  EXPECT_THAT(third.output(), HasSubstr("this node's part of 8 requests is done, "));

  const auto stats = statistics();
  EXPECT_EQ(stats["run"]["requests"], 8);
  EXPECT_EQ(stats["run"]["failed"], 0);
  for (std::size_t edge = 0; edge < 2; ++edge) {
    for (const char* figure : {"from_stage", "to_stage", "chunks", "bytes"})
      EXPECT_EQ(stats["edges"][edge][figure], expected["edges"][edge][figure]);
  }
  for (const auto& request : stats["requests"]) {
    EXPECT_EQ(request["status"], "done");
    EXPECT_GT(request["time_to_first_packet_ms"].get<double>(), 0);
  }
}

TEST_F(Nodes, a_node_may_have_two_stages_and_the_nodes_may_come_before_the_master) {
  const int port = [this] {
    ServeProcess probe = master({"--omni-start-timeout", "0.2"});
    const int free_port = port_of(probe);
    probe.wait();
    return free_port;
  }();
  ServeProcess second = node("1,2", port);
  second.wait_for("calling the master at 127.0.0.1:" + std::to_string(port));
  ServeProcess first = node("0", port, small());
  expect_success(first);
  expect_success(second);
}

TEST_F(Nodes, R16_with_a_secret_the_same_goes_encrypted) {
  const Words with_secret{"--secret-file", secret("secret", 'a')};
  ServeProcess first = master(small(with_secret));
  ServeProcess second = node("1,2", port_of(first), with_secret);
  expect_success(first);
  expect_success(second);
}

TEST_F(Nodes, R16_who_has_another_secret_or_none_is_told_and_disturbs_nobody) {
  const Words with_secret{"--secret-file", secret("secret", 'a')};
  ServeProcess first = master(small(with_secret));
  const int port = port_of(first);
  ServeProcess wrong = node("1,2", port, {"--secret-file", secret("wrong", 'b')});
  ServeProcess missing = node("1,2", port);
  for (ServeProcess* stranger : {&wrong, &missing}) {
    expect_error(*stranger, "permission denied: the master at 127.0.0.1:" + std::to_string(port) +
                                " drops every connection at once: the secrets of the nodes differ");
  }
  first.wait_for("does not complete ZeroMQ's handshake");
  ServeProcess second = node("1,2", port, with_secret);
  expect_success(first);
  expect_success(second);
}

TEST_F(Nodes, R16_a_secret_file_that_others_may_read_is_refused) {
  ServeProcess first = master({"--secret-file", secret("secret", 'a', 0644)});
  expect_error(first, "others than its owner may use the secret file ", 2);
  ServeProcess open = node("0", 0, {}, "192.0.2.1");
  expect_error(open, "the master at 192.0.2.1 is open to other hosts, and there is no secret", 2);
}

TEST_F(Nodes, R08_a_killed_node_is_named_by_all_others) {
  ServeProcess first = master(slow());
  const int port = port_of(first);
  ServeProcess second = node("1", port);
  ServeProcess third = node("2", port);
  const pid_t stage = second.stage(1);
  third.stage(2);
  first.stage(0);
  ASSERT_TRUE(test::send_signal(second.pid(), SIGKILL));
  const std::string words = "(pid " + std::to_string(second.pid()) + ", stage 1): its connection has ended";
  expect_error(first, words);
  expect_error(third, words);
  EXPECT_EQ(second.wait().text(), "was killed by signal 9 (Killed)");
  EXPECT_TRUE(test::eventually([&] { return test::state_of(stage) == '?' || test::state_of(stage) == 'Z'; }));
}

TEST_F(Nodes, R08_when_the_master_is_killed_the_nodes_end) {
  ServeProcess first = master(slow());
  const int port = port_of(first);
  ServeProcess second = node("1,2", port);
  second.stage(2);
  ASSERT_TRUE(test::send_signal(first.pid(), SIGKILL));
  expect_error(second, "unavailable: the connection to the master at 127.0.0.1:" + std::to_string(port) +
                           " has ended");
  first.wait();
}

TEST_F(Nodes, R08_a_killed_stage_of_a_node_is_named_everywhere) {
  ServeProcess first = master(slow());
  ServeProcess second = node("1,2", port_of(first));
  first.stage(0);
  const pid_t victim = second.stage(1);
  ASSERT_TRUE(test::send_signal(victim, SIGKILL));
  for (ServeProcess* run : {&first, &second}) {
    expect_error(*run, "stage 1 (talker, pid " + std::to_string(victim) + " on ");
    EXPECT_THAT(run->output(), HasSubstr("was killed by signal 9 (Killed)"));
  }
}

TEST_F(Nodes, a_node_that_falls_silent_is_lost_within_the_heartbeat_timeout) {
  ServeProcess first = master(slow({"--omni-heartbeat-timeout", "1"}));
  const int port = port_of(first);
  ServeProcess second = node("1", port);
  ServeProcess third = node("2", port);
  second.stage(1);
  third.stage(2);
  ASSERT_TRUE(test::send_signal(second.pid(), SIGSTOP));
  const std::string words =
      "(pid " + std::to_string(second.pid()) + ", stage 1): nothing was heard from it for 1000 ms";
  expect_error(first, words);
  expect_error(third, words);
  ASSERT_TRUE(test::send_signal(second.pid(), SIGCONT));
  expect_error(second, "the master at 127.0.0.1:" + std::to_string(port));
}

TEST_F(Nodes, an_interrupt_of_one_ends_all) {
  for (const bool of_master : {true, false}) {
    SCOPED_TRACE(of_master);
    ServeProcess first = master(slow());
    ServeProcess second = node("1,2", port_of(first));
    first.stage(0);
    second.stage(2);
    ServeProcess& interrupted = of_master ? first : second;
    ServeProcess& other = of_master ? second : first;
    ASSERT_TRUE(test::send_signal(interrupted.pid(), SIGINT));
    expect_error(interrupted, "interrupted by SIGINT");
    expect_error(other, "cancelled: ");
    EXPECT_THAT(other.output(), HasSubstr("the run was interrupted"));
  }
}

TEST_F(Nodes, requests_that_fail_fail_everywhere) {
  ServeProcess first = master(join({"--prompt-tokens", "200", "--output-tokens", "2"},
                                   {"--set", "connectors.omni.extra.memory_pool_size=512KiB"}));
  ServeProcess second = node("1,2", port_of(first));
  expect_error(first, "request request-0 failed: stage ");
  expect_error(second, "1 request failed: the master says why");
}

}  // namespace
}  // namespace stagewire
