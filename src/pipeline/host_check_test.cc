#include "pipeline/host_check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace stagewire::pipeline {
namespace {

Status check(const std::string& host) {
  StagePlan stage;
  stage.stage_id = 4;
  stage.connector = ConnectorConfig{};
  stage.connector->host = host;
  return check_hosts({&stage});
}

TEST(HostCheck, this_machine_and_names_are_left_to_the_stages) {
  for (const char* host : {"127.0.0.1", "auto", "no-such-host.invalid"})
    EXPECT_TRUE(check(host).ok()) << host;
}

/// In a network of its own, where no interface is up.
[[noreturn]] void check_without_network() {
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0 && ::unshare(CLONE_NEWNET) != 0) std::_Exit(4);
  const Status status = check("127.0.0.1");
  std::fputs(status.ok() ? "it found a way" : status.error().message().c_str(), stderr);
  std::_Exit(status.ok() ? 0 : 3);
}

TEST(HostCheck, R10_without_a_loopback_interface_the_host_is_named) {
  EXPECT_EXIT(check_without_network(), ::testing::ExitedWithCode(3),
              "no way to 127.0.0.1, the host of stage 4: ");
}

}  // namespace
}  // namespace stagewire::pipeline
