// `stagewire serve` over two hosts, as the deploy file for it says: the thinker here, talker and code2wav
// there.
#include <regex>

#include "process/nodes_fixture.hpp"
#include "rdma/two_hosts.hpp"

namespace stagewire::rdma_test {
namespace {

using test::ServeProcess;
using ::testing::HasSubstr;

class ServeTwoHosts : public test::NodesTest {
 protected:
  void SetUp() override {
    if (!in_guest()) GTEST_SKIP() << "needs the two hosts of scripts/rdma-vm run --netns";
    NodesTest::SetUp();
  }

  ServeProcess host(const std::string& address, const std::string& stages, int port, const Words& more,
                    const Words& around = {}) const {
    const std::string file = STAGEWIRE_SOURCE_DIR "/deploy/qwen3_omni_moe_rdma_2node.yaml";
    return ServeProcess(join({"Qwen/Qwen3-Omni-30B-A3B-Instruct", "--omni", "--deploy-config", file, "--set",
                              "connectors.rdma.extra.host=" + address, "--set",
                              "connectors.rdma.extra.memory_pool_size=64MiB", "--set",
                              "connectors.rdma.extra.rdma_max_piece=64KiB", "--stage-id", stages, "-oma",
                              kHere, "-omp", std::to_string(port), "--secret-file", secret("secret", 'a')},
                             more),
                        dir_.file("tmp"), around);
  }

  static void expect_all_done(ServeProcess& here, ServeProcess& there, const std::string& requests) {
    expect_success(here);
    expect_success(there);
    EXPECT_THAT(here.output(), HasSubstr(requests + " requests done, 0 failed"));
    EXPECT_THAT(here.output(), HasSubstr("rdma")) << "the route of an edge";
  }
};

TEST_F(ServeTwoHosts, every_byte_of_the_replay_arrives_over_rdma) {
  ServeProcess here = host(kHere, "0", 0,
                           {"--requests", "8", "--concurrency", "8", "--prompt-tokens", "50",
                            "--output-tokens", "20", "--log-stats", "--stats-json", dir_.file("stats.json")});
  ServeProcess there = host(kThere, "1,2", port_of(here), {}, {"peer"});
  expect_all_done(here, there, "8");
}

TEST_F(ServeTwoHosts, R05_a_run_survives_a_link_that_is_cut_for_three_seconds) {
  ServeProcess here = host(kHere, "0", 0,
                           {"--requests", "4", "--concurrency", "4", "--prompt-tokens", "20",
                            "--output-tokens", "200", "--rate", "real", "--log-stats", "--timeout", "60"});
  ServeProcess there = host(kThere, "1,2", port_of(here), {}, {"peer"});
  there.wait_for("stage 2 (");
  std::this_thread::sleep_for(std::chrono::seconds(3));  // into the middle of the stream
  CutLink cut;
  std::this_thread::sleep_for(std::chrono::seconds(3));
  cut.mend();
  expect_all_done(here, there, "4");
}

// Two kernels (scripts/rdma-pair): the other one runs its stages already, and waits for this master.
class ServeTwoKernels : public test::NodesTest {
 protected:
  void SetUp() override {
    if (std::getenv("RDMA_PAIR") == nullptr) GTEST_SKIP() << "needs the two guests of scripts/rdma-pair";
    NodesTest::SetUp();
  }
};

TEST_F(ServeTwoKernels, every_byte_of_the_replay_arrives_over_rdma) {
  const std::string file = STAGEWIRE_SOURCE_DIR "/deploy/qwen3_omni_moe_rdma_2node.yaml";
  ServeProcess here({"Qwen/Qwen3-Omni-30B-A3B-Instruct",
                     "--omni",
                     "--deploy-config",
                     file,
                     "--set",
                     "connectors.rdma.extra.host=10.77.0.1",
                     "--set",
                     "connectors.rdma.extra.memory_pool_size=64MiB",
                     "--set",
                     "connectors.rdma.extra.rdma_max_piece=64KiB",
                     "--stage-id",
                     "0",
                     "-oma",
                     "10.77.0.1",
                     "-omp",
                     "9000",
                     "--insecure",
                     "--omni-start-timeout",
                     "120",
                     "--requests",
                     "4",
                     "--concurrency",
                     "4",
                     "--prompt-tokens",
                     "50",
                     "--output-tokens",
                     "20",
                     "--log-stats"},
                    dir_.file("tmp"), {});
  expect_success(here);
  EXPECT_THAT(here.output(), HasSubstr("4 requests done, 0 failed"));
  EXPECT_THAT(here.output(), HasSubstr("rdma")) << "the route of an edge";
}

}  // namespace
}  // namespace stagewire::rdma_test
