// A second process in a test: forked before this one has threads, speaking through a pipe.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <functional>

#include "conformance/side.hpp"
#include "support/send_signal.hpp"

namespace stagewire::conformance {

/// Pipes between parent and child; each message is a length and bytes.
class Child {
 public:
  class Line {
   public:
    Line(int in, int out) : in_(in), out_(out) {}
    void write(std::span<const std::byte> bytes) {
      const std::uint64_t size = bytes.size();
      put(&size, sizeof size);
      put(bytes.data(), bytes.size());
    }
    /// Empty when the other end is gone.
    Bytes read() {
      std::uint64_t size = 0;
      if (!get(&size, sizeof size)) return {};
      Bytes bytes(size);
      if (!get(bytes.data(), size)) return {};
      return bytes;
    }

   private:
    void put(const void* data, std::size_t size) {
      if (::write(out_, data, size) != static_cast<ssize_t>(size)) std::abort();
    }
    bool get(void* data, std::size_t size) {
      auto* at = static_cast<char*>(data);
      while (size > 0) {
        const ssize_t got = ::read(in_, at, size);
        if (got <= 0) return false;
        at += got;
        size -= static_cast<std::size_t>(got);
      }
      return true;
    }
    int in_;
    int out_;
  };

  /// `body` runs in the child; its result is the exit status.
  explicit Child(const std::function<int(Line&)>& body) {
    int down[2];
    int up[2];
    if (::pipe2(down, O_CLOEXEC) != 0 || ::pipe2(up, O_CLOEXEC) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a failed test leaves nobody behind
      ::close(down[1]);
      ::close(up[0]);
      Line line(down[0], up[1]);
      ::_exit(body(line));
    }
    ::close(down[0]);
    ::close(up[1]);
    out_.reset(down[1]);
    in_.reset(up[0]);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ < 0) return;
    signal(SIGKILL);
    wait();
  }

  Line line() { return {in_.get(), out_.get()}; }
  void signal(int number) { EXPECT_TRUE(test::send_signal(pid_, number)); }
  /// The exit status, or minus the signal.
  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  /// Until it is stopped by a signal.
  void wait_stopped() {
    int status = 0;
    ::waitpid(pid_, &status, WUNTRACED);
  }

 private:
  pid_t pid_ = -1;
  base::UniqueFd in_;
  base::UniqueFd out_;
};

/// Sleeps in poll() between events, as an engine does with `wait: block`. False when patience ends.
template <typename Done>
bool drive_blocking(Side& side, Done done) {
  while (!done()) {
    side.step();
    if (done()) return true;
    if (!side.backend->arm()) continue;
    pollfd waited{side.backend->wait_fd(), POLLIN, 0};
    if (::poll(&waited, 1, 30'000) == 0) return false;
  }
  return true;
}

/// The child's end of a connection in both directions: introduces itself and waits for the parent's address.
inline std::unique_ptr<Endpoint> meet(Side& side, Child::Line& line) {
  line.write(side.backend->address());
  auto endpoint = side.connect(line.read());
  const bool up =
      drive_blocking(side, [&] { return endpoint->status().has_value() && !side.events.arrived.empty(); });
  return up && endpoint->status()->ok() ? std::move(endpoint) : nullptr;
}

}  // namespace stagewire::conformance
