#include "base/thread.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>

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

/// With no address space left for a stack, the system refuses threads as it does at its other limits. The
/// first ones find the stacks of threads that have ended.
[[noreturn]] void report_refusal() {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  constexpr std::uint64_t kForTheHeap = 1 << 20;
  const rlim_t size = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) + kForTheHeap;
  const rlimit limit{size, size};
  ::setrlimit(RLIMIT_AS, &limit);
  const Status status = check_threads(64);
  std::fputs(status.ok() ? "it was started" : status.error().message().c_str(), stderr);
  std::_Exit(status.ok() ? 0 : 3);
}

TEST(Thread, one_that_is_refused_is_an_error_that_names_the_limit) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer needs the address space itself";
#endif
  EXPECT_EXIT(report_refusal(), ::testing::ExitedWithCode(3),
              "cannot start thread [0-9]+ of the 64 that this needs: .*RLIMIT_NPROC.*ulimit -u");
}

}  // namespace
}  // namespace stagewire::base
