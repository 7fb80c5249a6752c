#include "base/thread.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/use_up_threads.hpp"

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

[[noreturn]] void report_refusal() {
  test::use_up_threads();
  test::exit_with(check_threads(64));
}

TEST(Thread, one_that_is_refused_is_an_error_that_names_the_limit) {
  if (!test::kCanUseUpThreads) GTEST_SKIP() << "a sanitizer needs the address space itself";
  EXPECT_EXIT(report_refusal(), ::testing::ExitedWithCode(3),
              "cannot start thread 1 of the 64 that this needs: .*RLIMIT_NPROC.*ulimit -u");
}

}  // namespace
}  // namespace stagewire::base
