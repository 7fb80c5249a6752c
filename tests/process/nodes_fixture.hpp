// `stagewire serve --stage-id ...`: the nodes of one run, each a process of its own.
#pragma once

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "process/serve_process.hpp"

namespace stagewire::test {

class NodesTest : public ServeTest {
 protected:
  using Words = std::vector<std::string>;

  static Words join(Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  /// A small replay, told to the master alone.
  static Words small(const Words& more = {}) {
    return join({"--prompt-tokens", "20", "--output-tokens", "10"}, more);
  }
  /// One that goes on for half a minute unless something ends it.
  static Words slow(const Words& more = {}) { return join({"--rate", "real", "--requests", "4"}, more); }

  static std::string cpu_file() { return STAGEWIRE_SOURCE_DIR "/deploy/qwen3_omni_moe_cpu.yaml"; }

  ServeProcess node(const std::string& stages, int port, const Words& more = {},
                    const std::string& address = "127.0.0.1", const Words& around = {}) const {
    return ServeProcess(join({"Qwen/Qwen3-Omni-30B-A3B-Instruct", "--omni", "--deploy-config", cpu_file(),
                              "--set", "connectors.omni.extra.memory_pool_size=64MiB", "--stage-id", stages,
                              "-oma", address, "-omp", std::to_string(port)},
                             more),
                        dir_.file("tmp"), around);
  }

  /// Stage 0, at a port that the system chooses.
  ServeProcess master(const Words& more = {}) const { return node("0", 0, more); }

  /// Where a master waits.
  static int port_of(ServeProcess& master) {
    master.wait_for("the master waits at ");
    std::smatch found;
    const std::string& output = master.output();
    const std::regex line("the master waits at \\S*:(\\d+) for ");
    return std::regex_search(output, found, line) ? std::stoi(found[1]) : -1;
  }

  /// A file with a key in it.
  std::string secret(const std::string& name, char digit, mode_t mode = 0600) const {
    write_file(dir_.file(name), std::string(64, digit) + "\n");
    EXPECT_EQ(::chmod(dir_.file(name).c_str(), mode), 0);
    return dir_.file(name);
  }

  nlohmann::json statistics() const { return nlohmann::json::parse(read_file(dir_.file("stats.json"))); }

  static void expect_success(ServeProcess& run) {
    const auto status = run.wait();
    EXPECT_TRUE(status.success()) << status.text() << "\n" << run.output();
  }

  static void expect_error(ServeProcess& run, const std::string& words, int status = 1) {
    EXPECT_EQ(run.wait().text(), "ended with exit status " + std::to_string(status)) << run.output();
    EXPECT_THAT(run.output(), ::testing::AllOf(::testing::HasSubstr("error: "), ::testing::HasSubstr(words)));
  }
};

}  // namespace stagewire::test
