// `stagewire serve` as a child of the test, with everything that it leaves behind.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "pipeline/child_process.hpp"
#include "pipeline/output_lines.hpp"
#include "support/send_signal.hpp"
#include "support/temp_dir.hpp"
#include "support/wav_bytes.hpp"

namespace stagewire::test {

/// Looks again and again until it is so; false when it is not so after a minute.
inline bool eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

/// Arguments of a process, empty when it is gone.
inline std::vector<std::string> arguments_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string word; std::getline(file, word, '\0');) arguments.push_back(word);
  return arguments;
}

/// The letter in /proc/PID/stat: R, S, T, Z ...; '?' when it is gone.
inline char state_of(pid_t pid) {
  const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat");
  const auto name_end = stat.rfind(") ");
  return name_end == std::string::npos ? '?' : stat.at(name_end + 2);
}

inline std::vector<pid_t> children_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) + "/children");
  return {std::istream_iterator<pid_t>(file), {}};
}

inline std::set<std::string> shared_memory_names() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    names.insert(entry.path().filename().string());
  return names;
}

/// One run of the program, with its output.
class ServeProcess {
 public:
  /// `around`: a command that runs the one behind it in its own place, such as `ip netns exec`.
  explicit ServeProcess(const std::vector<std::string>& arguments, const std::string& temporary_directory,
                        const std::vector<std::string>& around = {}) {
    pipeline::ChildOptions options;
    options.command = around;
    options.command.insert(options.command.end(), {STAGEWIRE_BINARY_DIR "/stagewire", "serve"});
    options.command.insert(options.command.end(), arguments.begin(), arguments.end());
    options.environment = {{"TMPDIR", temporary_directory}};
    auto child = pipeline::ChildProcess::start(options);
    EXPECT_TRUE(child.ok()) << child.error().to_string();
    process_.emplace(std::move(*child));
  }

  pid_t pid() const { return process_->pid(); }

  /// The process of a stage; waits until it is there. -1, and a failed test, when the run ends before.
  pid_t stage(int stage_id) {
    pid_t found = -1;
    EXPECT_TRUE(while_it_runs([&] {
      found = child_of_stage(stage_id);
      return found > 0;
    })) << "stage "
        << stage_id << " did not appear\n"
        << description();
    return found;
  }

  /// Waits until the last stage has written audio.
  void wait_for_audio(int last_stage) {
    const std::string file = "/proc/" + std::to_string(stage(last_stage)) + "/fd/4";
    EXPECT_TRUE(while_it_runs([&] {
      struct stat info {};
      return ::stat(file.c_str(), &info) == 0 && info.st_size > 44;
    })) << "no audio was written\n"
        << description();
  }

  /// Waits until it has said this; a failed test when it ends before.
  void wait_for(const std::string& words) {
    EXPECT_TRUE(while_it_runs([&] { return output().find(words) != std::string::npos; }))
        << "it did not say: " << words << "\n"
        << description();
  }

  /// Waits for the end; the process's own, the stages are not waited for.
  pipeline::ExitStatus wait() {
    pollfd waiting{process_->output_fd(), POLLIN, 0};
    while (read_output()) {
      if (::poll(&waiting, 1, 120'000) == 1) continue;
      ADD_FAILURE() << "it goes on and on\n" << description();
      process_->kill();
    }
    EXPECT_TRUE(eventually([this] { return process_->try_reap().has_value(); }));
    return process_->try_reap().value_or(pipeline::ExitStatus{true, 0});
  }

  const std::string& output() const { return all_; }  ///< what has been read so far: all, after wait()

 private:
  /// False when its output is closed.
  bool read_output() {
    return lines_.read_from(process_->output_fd(),
                            [this](std::string_view line) { all_ += std::string(line) + "\n"; });
  }

  /// eventually(), but not beyond the end of the run.
  bool while_it_runs(const std::function<bool()>& condition) {
    bool met = false;
    bool ended = false;
    return eventually([&] {
             read_output();
             ended = process_->try_reap().has_value();
             met = condition();
             return met || ended;
           }) &&
           met;
  }

  pid_t child_of_stage(int stage_id) const {
    const std::vector<std::string> wanted{"--stage-id", std::to_string(stage_id)};
    for (const pid_t child : children_of(pid())) {
      const auto arguments = arguments_of(child);
      if (std::search(arguments.begin(), arguments.end(), wanted.begin(), wanted.end()) != arguments.end())
        return child;
    }
    return -1;
  }

  /// For a failed test: how it is, who its children are, and what it has said.
  std::string description() {
    const auto status = process_->try_reap();
    std::string text = "serve, pid " + std::to_string(pid()) + ": ";
    text += status ? status->text() : std::string("state ") + state_of(pid());
    for (const pid_t child : children_of(pid())) {
      text += "\nchild " + std::to_string(child) + ", state " + state_of(child) + ":";
      for (const std::string& word : arguments_of(child)) text += " " + word;
    }
    return text + "\n" + output();
  }

  std::optional<pipeline::ChildProcess> process_;
  pipeline::OutputLines lines_;
  std::string all_;
};

/// A test of `serve` in a directory of its own. Its end checks that nothing was left behind.
class ServeTest : public ::testing::Test {
 protected:
  ServeTest() {
    // Processes whose parent died become children of the test, which can then see them.
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    std::filesystem::create_directory(dir_.path() / "tmp");
    shared_before_ = shared_memory_names();
  }

  void TearDown() override {
    EXPECT_TRUE(eventually([] {
      while (::waitpid(-1, nullptr, WNOHANG) > 0) {
      }
      return errno == ECHILD;
    })) << "processes were left behind";
    EXPECT_TRUE(std::filesystem::is_empty(dir_.path() / "tmp")) << "temporary files were left behind";
    EXPECT_EQ(shared_memory_names(), shared_before_) << "shared memory was left behind";
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
      EXPECT_EQ(entry.path().extension().string().find(".part"), std::string::npos) << entry.path();
    }
  }

  static std::string deploy_file() { return STAGEWIRE_SOURCE_DIR "/deploy/speech_intranode.yaml"; }
  static std::string example() { return STAGEWIRE_SOURCE_DIR "/examples/speech.wav"; }
  std::string output() const { return dir_.file("out.wav"); }

  /// The first seconds of the example, for runs in real time.
  std::string short_example(double seconds) const {
    const std::string whole = read_file(example());
    const auto size = static_cast<std::size_t>(seconds * 16'000) * 2;
    write_file(dir_.file("short.wav"), wav_file({}, whole.substr(44, size)));
    return dir_.file("short.wav");
  }

  ServeProcess start(const std::string& input, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments{"--deploy-config", deploy_file(), "--input", input,
                                       "--output",        output()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return ServeProcess(arguments, (dir_.path() / "tmp").string());
  }

  TempDir dir_;
  std::set<std::string> shared_before_;
};

}  // namespace stagewire::test
