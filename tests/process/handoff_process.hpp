// Starts handoff_peer processes, speaks to them, stops and kills them.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "support/send_signal.hpp"

namespace stagewire::process {

/// Longer than anything takes; a test that waits so long has failed.
constexpr std::chrono::seconds kPatience{60};

struct PeerOptions {
  int stage = 0;
  std::string route = "auto";
  int port = 0;
  int sender_port = 0;
  std::size_t pool_size = 64 << 20;
  std::string backend = "shm";
  std::string host = "127.0.0.1";
  std::string sender_host = "127.0.0.1";
  std::vector<std::string> settings = {};  ///< of the backend, NAME=VALUE
  std::vector<std::string> launcher = {};  ///< what starts it, if it is to run elsewhere
};

/// A child process; killed when it is still there at the end.
class HandoffPeer {
 public:
  explicit HandoffPeer(const PeerOptions& options) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
    const std::string program = STAGEWIRE_BINARY_DIR "/tests/handoff_peer";
    std::vector<std::string> words = options.launcher;
    words.insert(words.end(),
                 {program, std::to_string(options.stage), options.route, std::to_string(options.port),
                  std::to_string(options.sender_port), std::to_string(options.pool_size), options.backend,
                  options.host, options.sender_host});
    words.insert(words.end(), options.settings.begin(), options.settings.end());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(ends[1], 0);
      ::dup2(ends[1], 1);
      ::execvp(arguments[0], arguments.data());
      ::_exit(127);
    }
    ::close(ends[1]);
    line_ = ends[0];
    hello = reply();
    if (hello.starts_with("port ")) port = std::stoi(hello.substr(5));
  }
  HandoffPeer(const HandoffPeer&) = delete;
  HandoffPeer& operator=(const HandoffPeer&) = delete;
  ~HandoffPeer() {
    kill();
    ::close(line_);
  }

  void tell(const std::string& command) const {
    const std::string text = command + "\n";
    ASSERT_EQ(::send(line_, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  /// One line; "(gone)" when the process has ended, "(silent)" when it says nothing for too long.
  std::string reply() {
    while (buffer_.find('\n') == std::string::npos) {
      pollfd wait{line_, POLLIN, 0};
      if (::poll(&wait, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count())) <= 0)
        return "(silent)";
      char bytes[4096];
      const ssize_t got = ::read(line_, bytes, sizeof bytes);
      if (got <= 0) return "(gone)";
      buffer_.append(bytes, static_cast<std::size_t>(got));
    }
    const std::string line = buffer_.substr(0, buffer_.find('\n'));
    buffer_.erase(0, line.size() + 1);
    return line;
  }
  std::string ask(const std::string& command) {
    tell(command);
    return reply();
  }
  /// The numbers of its connector's health.
  std::map<std::string, std::uint64_t> health() {
    std::istringstream words(ask("health"));
    std::map<std::string, std::uint64_t> numbers;
    std::string name;
    std::uint64_t value = 0;
    while (words >> name >> value) numbers[name] = value;
    return numbers;
  }

  /// Returns when it has stopped.
  void stop() const {
    ASSERT_TRUE(test::send_signal(pid_, SIGSTOP));
    int status = 0;
    ASSERT_EQ(::waitpid(pid_, &status, WUNTRACED), pid_);
    ASSERT_TRUE(WIFSTOPPED(status));
  }
  void go_on() const { EXPECT_TRUE(test::send_signal(pid_, SIGCONT)); }
  void kill() {
    if (pid_ <= 0) return;
    EXPECT_TRUE(test::send_signal(pid_, SIGKILL));
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  pid_t pid() const { return pid_; }

  /// Of all its threads: how often one went to sleep by itself.
  std::uint64_t sleeps() const {
    std::uint64_t total = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/" + std::to_string(pid_) + "/task")) {
      std::ifstream status(task.path() / "status");
      std::string word;
      while (status >> word) {
        std::uint64_t count = 0;
        if (word == "voluntary_ctxt_switches:" && status >> count) total += count;
      }
    }
    return total;
  }

  int port = 0;
  std::string hello;

 private:
  pid_t pid_ = -1;
  int line_ = -1;
  std::string buffer_;
};

template <typename Condition>
bool eventually(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace stagewire::process
