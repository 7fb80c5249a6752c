#include "pipeline/child_process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.hpp"
#include "base/text.hpp"

namespace stagewire::pipeline {
namespace {

constexpr int kFirstFd = 3;

/// What posix_spawn() is to do in the child.
class SpawnPlan {
 public:
  SpawnPlan() {
    must(::posix_spawn_file_actions_init(&actions_));
    must(::posix_spawnattr_init(&attributes_));
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
  ~SpawnPlan() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }

  /// Every signal as usual, SIGINT blocked.
  void reset_signals() {
    sigset_t all;
    sigset_t blocked;
    ::sigfillset(&all);
    ::sigemptyset(&blocked);
    ::sigaddset(&blocked, SIGINT);
    must(::posix_spawnattr_setsigdefault(&attributes_, &all));
    must(::posix_spawnattr_setsigmask(&attributes_, &blocked));
    must(::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK));
  }
  void open_empty_input() {
    must(::posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0));
  }
  void duplicate(int fd, int as) { must(::posix_spawn_file_actions_adddup2(&actions_, fd, as)); }
  void close_from(int fd) { must(::posix_spawn_file_actions_addclosefrom_np(&actions_, fd)); }

  int spawn(pid_t& pid, char** arguments, char** environment) {
    return ::posix_spawnp(&pid, arguments[0], &actions_, &attributes_, arguments, environment);
  }

 private:
  /// They fail for lack of memory only.
  static void must(int error_number) { STAGEWIRE_CHECK(error_number == 0, "preparing a child process"); }
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

std::vector<std::string> environment_with(const std::map<std::string, std::string>& added) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (added.count(text.substr(0, text.find('='))) == 0) result.push_back(text);
  }
  for (const auto& [name, value] : added) result.push_back(name + "=" + value);
  return result;
}

/// What was attempted, why it failed, and, where it is a limit of this process, which and how it is raised.
Error start_error(std::string_view what, int error_number) {
  rlimit limit{};
  if (error_number == EMFILE && ::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    return base::error(ErrorCode::exhausted, what, ": the ", limit.rlim_cur,
                       " file descriptors that this process may have (RLIMIT_NOFILE) are used up: raise the "
                       "limit with 'ulimit -n 65536'");
  }
  if (error_number == EAGAIN && ::getrlimit(RLIMIT_NPROC, &limit) == 0) {
    return base::error(ErrorCode::exhausted, what, ": ", base::errno_text(error_number),
                       ": the processes and threads of this user are limited to ", limit.rlim_cur,
                       " (RLIMIT_NPROC): raise the limit with 'ulimit -u', or end other processes");
  }
  if (error_number == E2BIG) {
    return base::error(ErrorCode::too_large, what, ": ", base::errno_text(error_number),
                       ": the environment, with `env` of the stage, and the arguments are longer than the "
                       "system takes: make them shorter, or raise the limit with 'ulimit -s'");
  }
  return base::system_error(what, error_number);
}

}  // namespace

std::string ExitStatus::text() const {
  if (!killed) return base::text("ended with exit status ", number);
  return base::text("was killed by signal ", number, " (", ::strsignal(number), ")");
}

Result<ChildProcess> ChildProcess::start(const ChildOptions& options) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return start_error("a pipe for a stage's output", errno);
  ChildProcess child;
  child.output_fd_.reset(ends[0]);
  const base::UniqueFd write_end(ends[1]);
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);

  // Copies above all numbers that the child gets, so that no dup2 below overwrites what a later one needs.
  const int high = kFirstFd + static_cast<int>(options.fds.size());
  std::vector<base::UniqueFd> copies;
  for (const int fd : options.fds) {
    copies.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, high));
    if (!copies.back()) return start_error("duplicating a descriptor for a stage", errno);
  }
  const base::UniqueFd output(::fcntl(write_end.get(), F_DUPFD_CLOEXEC, high));
  if (!output) return start_error("duplicating a descriptor for a stage", errno);

  SpawnPlan plan;
  plan.reset_signals();
  plan.open_empty_input();
  plan.duplicate(output.get(), STDOUT_FILENO);
  plan.duplicate(output.get(), STDERR_FILENO);
  int next = kFirstFd;
  for (const base::UniqueFd& fd : copies) plan.duplicate(fd.get(), next++);
  plan.close_from(next);

  std::vector<std::string> command = options.command;
  std::vector<std::string> environment = environment_with(options.environment);
  const int error_number = plan.spawn(child.pid_, pointers(command).data(), pointers(environment).data());
  if (error_number != 0) {
    child.pid_ = -1;
    return start_error("starting " + options.command.front(), error_number);
  }
  // The header that declares pidfd_open() forgets that C++ includes it, in Debian 12.
  child.exit_fd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, child.pid_, 0U)));
  if (!child.exit_fd_) return start_error("pidfd_open", errno);
  return child;
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      exit_fd_(std::move(other.exit_fd_)),
      output_fd_(std::move(other.output_fd_)),
      exit_status_(other.exit_status_) {}

ChildProcess::~ChildProcess() {
  if (pid_ < 0 || exit_status_) return;
  kill();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::optional<ExitStatus> ChildProcess::try_reap() {
  if (exit_status_ || pid_ < 0) return exit_status_;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
  exit_status_ =
      WIFSIGNALED(status) ? ExitStatus{true, WTERMSIG(status)} : ExitStatus{false, WEXITSTATUS(status)};
  return exit_status_;
}

void ChildProcess::kill() {
  // Not reaped yet, so that the number is still this child's; a moved-from object has none, and -1 means
  // everybody.
  if (pid_ > 0 && !exit_status_) ::kill(pid_, SIGKILL);
}

}  // namespace stagewire::pipeline
