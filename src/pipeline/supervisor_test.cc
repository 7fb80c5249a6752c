// The supervisor over processes that are no stages: they say nothing, die, or never end.
#include "pipeline/supervisor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace stagewire::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Lines final : public PipelineObserver {
 public:
  void on_progress(double, double, double) override {}
  void on_stage_output(int stage_id, std::string_view line) override {
    all.push_back(std::to_string(stage_id) + ": " + std::string(line));
    if (on_line) on_line();
  }
  std::vector<std::string> all;
  std::function<void()> on_line;
};

/// `count` stages that run the script; in it $2 is the stage's number.
RunOptions shell_stages(int count, const std::string& script) {
  RunOptions options;
  options.command = {"/bin/sh", "-c", script};  // what follows becomes $0, $1, ...: --stage-id, N, ...
  for (int id = 0; id < count; ++id) {
    StageLaunch launch;
    launch.name = "sh";
    launch.assignment.position = static_cast<std::uint64_t>(id);
    launch.assignment.stage_id = id;
    options.stages.push_back(launch);
    options.names.push_back({id, "sh"});
  }
  return options;
}

TEST(Supervisor, a_stage_that_dies_ends_the_others_and_is_named_with_its_last_words) {
  Lines lines;
  Supervisor supervisor(shell_stages(3, "[ $1 = 1 ] || exec sleep 600; echo cannot go on >&2; exit 7"),
                        lines);
  const Status status = supervisor.run();
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message(),
              AllOf(HasSubstr("stage 1 (sh, pid "), HasSubstr("ended with exit status 7"),
                    HasSubstr("its last words: cannot go on")));
  EXPECT_THAT(lines.all, ElementsAre("1: cannot go on"));
}

TEST(Supervisor, stages_that_ignore_everything_are_killed) {
  Lines lines;
  Supervisor supervisor(shell_stages(2, "trap '' INT TERM HUP PIPE; [ $1 = 0 ] && exit 1; exec sleep 600"),
                        lines);
  const Status status = supervisor.run();
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message(), HasSubstr("stage 0 (sh"));
}

TEST(Supervisor, R05_silence_ends_the_run_and_the_silent_one_is_named) {
  Lines lines;
  RunOptions options = shell_stages(2, "exec sleep 600");
  options.timeout = Milliseconds(50);
  Supervisor supervisor(std::move(options), lines);
  const Status status = supervisor.run();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), ErrorCode::timeout);
  EXPECT_THAT(status.error().message(), HasSubstr("nothing was heard from stage 0 (sh, pid "));
}

TEST(Supervisor, R05_a_stopped_stage_is_named_and_not_one_that_waits_for_it) {
  Lines lines;
  RunOptions options = shell_stages(3, "[ $1 = 2 ] && kill -STOP $$; exec sleep 600");
  options.timeout = Milliseconds(50);
  Supervisor supervisor(std::move(options), lines);
  const Status status = supervisor.run();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), ErrorCode::timeout);
  EXPECT_THAT(status.error().message(),
              AllOf(HasSubstr("stage 2 (sh, pid "), HasSubstr("is stopped, by SIGSTOP")));
}

TEST(Supervisor, a_readable_stop_descriptor_ends_the_run) {
  const int stop = ::eventfd(0, EFD_CLOEXEC);
  Lines lines;
  lines.on_line = [stop] { ::eventfd_write(stop, 1); };
  RunOptions options = shell_stages(2, "echo here; exec sleep 600");
  options.stop_fd = stop;
  Supervisor supervisor(std::move(options), lines);
  const Status status = supervisor.run();
  ::close(stop);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), ErrorCode::cancelled);
}

TEST(Supervisor, a_program_that_cannot_be_started_is_an_error) {
  Lines lines;
  RunOptions options = shell_stages(2, "");
  options.command = {"/nonexistent/program"};
  Supervisor supervisor(std::move(options), lines);
  const Status status = supervisor.run();
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message(), HasSubstr("/nonexistent/program"));
}

}  // namespace
}  // namespace stagewire::pipeline
