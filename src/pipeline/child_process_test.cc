#include "pipeline/child_process.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "pipeline/output_lines.hpp"
#include "support/send_signal.hpp"

namespace stagewire::pipeline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ChildOptions shell(const std::string& script) {
  ChildOptions options;
  options.command = {"/bin/sh", "-c", script};
  return options;
}

void wait_readable(int fd) {
  pollfd waiting{fd, POLLIN, 0};
  ASSERT_EQ(::poll(&waiting, 1, 60'000), 1);
}

ExitStatus wait_for_exit(ChildProcess& child) {
  wait_readable(child.exit_fd());
  const auto status = child.try_reap();
  EXPECT_TRUE(status.has_value());
  return status.value_or(ExitStatus{});
}

std::vector<std::string> all_output(ChildProcess& child) {
  std::vector<std::string> lines;
  OutputLines output;
  do {
    wait_readable(child.output_fd());
  } while (output.read_from(child.output_fd(), [&](std::string_view line) { lines.emplace_back(line); }));
  return lines;
}

TEST(ChildProcess, its_output_and_its_exit_status_arrive) {
  auto child = ChildProcess::start(shell("echo out; echo err >&2; printf unfinished; exit 3"));
  ASSERT_TRUE(child.ok()) << child.error().to_string();
  EXPECT_THAT(all_output(*child), ElementsAre("out", "err", "unfinished"));
  const ExitStatus status = wait_for_exit(*child);
  EXPECT_FALSE(status.success());
  EXPECT_EQ(status.text(), "ended with exit status 3");
  EXPECT_EQ(child->try_reap()->number, 3) << "asked again";
}

TEST(ChildProcess, its_death_by_a_signal_is_told) {
  auto child = ChildProcess::start(shell("kill -SEGV $$"));
  ASSERT_TRUE(child.ok());
  EXPECT_THAT(wait_for_exit(*child).text(), HasSubstr("was killed by signal 11 (Segmentation fault)"));
}

TEST(ChildProcess, gets_exactly_the_descriptors_that_are_named) {
  std::array<int, 2> named{};
  std::array<int, 2> others{};
  ASSERT_EQ(::pipe(named.data()), 0);
  ASSERT_EQ(::pipe(others.data()), 0);  // not even closed on exec
  ChildOptions options = shell("echo hello >&3; for fd in /proc/$$/fd/*; do echo ${fd##*/}; done");
  options.fds = {named[1]};
  auto child = ChildProcess::start(options);
  ASSERT_TRUE(child.ok());
  // The shell itself may hold one more while it expands the pattern; what it may not have is one of ours.
  const auto lines = all_output(*child);
  EXPECT_THAT(lines, ::testing::IsSupersetOf({"0", "1", "2", "3"}));
  EXPECT_LE(lines.size(), 5U);
  wait_readable(named[0]);
  std::array<char, 8> text{};
  EXPECT_EQ(::read(named[0], text.data(), text.size()), 6);
  for (const int fd : {named[0], named[1], others[0], others[1]}) ::close(fd);
  wait_for_exit(*child);
}

TEST(ChildProcess, gets_added_and_replaced_environment) {
  ::setenv("STAGEWIRE_TEST_OLD", "old", 1);
  ChildOptions options = shell("echo $STAGEWIRE_TEST_OLD $STAGEWIRE_TEST_NEW; [ -n \"$PATH\" ] && echo kept");
  options.environment = {{"STAGEWIRE_TEST_OLD", "replaced"}, {"STAGEWIRE_TEST_NEW", "new"}};
  auto child = ChildProcess::start(options);
  ASSERT_TRUE(child.ok());
  EXPECT_THAT(all_output(*child), ElementsAre("replaced new", "kept"));
  ::unsetenv("STAGEWIRE_TEST_OLD");
}

TEST(ChildProcess, its_input_is_empty) {
  auto child = ChildProcess::start(shell("cat; echo end"));
  ASSERT_TRUE(child.ok());
  EXPECT_THAT(all_output(*child), ElementsAre("end"));
}

TEST(ChildProcess, a_program_that_is_not_there_is_an_error) {
  ChildOptions options;
  options.command = {"/nonexistent/program"};
  const auto child = ChildProcess::start(options);
  ASSERT_FALSE(child.ok());
  EXPECT_THAT(child.error().message(), HasSubstr("starting /nonexistent/program"));
}

TEST(ChildProcess, is_killed_and_reaped_with_its_object_also_when_it_is_stopped) {
  pid_t pid = -1;
  {
    auto child = ChildProcess::start(shell("echo here; exec sleep 600"));
    ASSERT_TRUE(child.ok());
    wait_readable(child->output_fd());
    EXPECT_FALSE(child->try_reap().has_value());
    pid = child->pid();
    ASSERT_TRUE(test::send_signal(pid, SIGSTOP));
  }
  EXPECT_FALSE(test::send_signal(pid, 0)) << "it is still there";
}

TEST(OutputLines, keeps_the_last_words_and_cuts_endless_lines) {
  auto child = ChildProcess::start(shell("for i in 1 2 3 4 5; do echo line $i; done"));
  ASSERT_TRUE(child.ok());
  OutputLines output;
  std::size_t lines = 0;
  do {
    wait_readable(child->output_fd());
  } while (output.read_from(child->output_fd(), [&](std::string_view) { ++lines; }));
  EXPECT_EQ(lines, 5U);
  EXPECT_EQ(output.last_words(), "line 3 | line 4 | line 5");

  auto flood = ChildProcess::start(shell("head -c 10000 /dev/zero"));
  ASSERT_TRUE(flood.ok());
  const auto pieces = all_output(*flood);
  ASSERT_EQ(pieces.size(), 3U);
  EXPECT_EQ(pieces[0].size(), 4096U);
  EXPECT_EQ(pieces[2].size(), 10'000U - 2 * 4096U);
}

}  // namespace
}  // namespace stagewire::pipeline
