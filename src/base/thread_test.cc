#include "base/thread.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>

namespace stagewire::base {
namespace {

TEST(Thread, runs_what_it_is_given) {
  bool has_run = false;
  std::thread thread;
  ASSERT_TRUE(start_thread(thread, "a thread", [&] { has_run = true; }).ok());
  thread.join();
  EXPECT_TRUE(has_run);
  EXPECT_TRUE(check_threads(8).ok());
}

/// With no address space left for a stack, the system refuses threads as it does at its other limits.
[[noreturn]] void report_refusal() {
  const rlimit none{1, 1};
  ::setrlimit(RLIMIT_AS, &none);
  std::thread thread;
  const Status status = start_thread(thread, "the thread that listens", [] {});
  std::fputs(status.ok() ? "it was started" : status.error().message().c_str(), stderr);
  std::_Exit(status.ok() ? 0 : 3);
}

TEST(Thread, one_that_is_refused_is_an_error_that_names_the_limit) {
  EXPECT_EXIT(report_refusal(), ::testing::ExitedWithCode(3),
              "cannot start the thread that listens: .*RLIMIT_NPROC.*ulimit -u");
}

}  // namespace
}  // namespace stagewire::base
