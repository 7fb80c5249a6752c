#include "backend/worker.hpp"

#include <gtest/gtest.h>

#include <future>

#include "support/use_up_threads.hpp"

namespace stagewire::backend {
namespace {

/// Tells how it ended.
class PromisedJob final : public Worker::Job {
 public:
  explicit PromisedJob(std::promise<bool>& ended) : Job(&ended), ended_(ended) {}
  bool step() override {
    if (++steps_ < 3) return false;
    ended_.set_value(true);
    return true;
  }
  void abandon() override { ended_.set_value(false); }

 private:
  std::promise<bool>& ended_;
  int steps_ = 0;
};

TEST(ShmWorker, takes_the_steps_of_a_job_until_it_has_ended) {
  std::promise<bool> ended;
  Worker worker;
  std::unique_ptr<Worker::Job> job = std::make_unique<PromisedJob>(ended);
  const auto pushed = worker.push(job);
  ASSERT_TRUE(pushed.ok()) << pushed.error().to_string();
  EXPECT_TRUE(*pushed);
  EXPECT_TRUE(ended.get_future().get());
}

[[noreturn]] void push_without_a_thread() {
  std::promise<bool> ended;
  Worker worker;
  std::unique_ptr<Worker::Job> job = std::make_unique<PromisedJob>(ended);
  test::use_up_threads();
  const auto pushed = worker.push(job);
  test::exit_with(job != nullptr ? pushed : Result<bool>(true));  // the job is the caller's still
}

TEST(ShmWorker, R24_without_a_thread_it_is_exhausted_and_keeps_no_job) {
  if (!test::kCanUseUpThreads) GTEST_SKIP() << "a sanitizer needs the address space itself";
  EXPECT_EXIT(push_without_a_thread(), ::testing::ExitedWithCode(3),
              "exhausted: cannot start the thread for large copies: .*ulimit -u");
}

}  // namespace
}  // namespace stagewire::backend
