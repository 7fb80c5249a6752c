// stagewire serve: runs the pipeline of a deploy file (docs/serve.md).
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.hpp"
#include "cli/serve_arguments.hpp"
#include "cli/shown.hpp"
#include "stagewire/deploy.hpp"
#include "stagewire/pipeline.hpp"

namespace stagewire::cli {
namespace {

void complain(const std::string& text) {
  std::fprintf(stderr, "stagewire serve: error: %s\n", shown(text).c_str());
}

/// Catches Ctrl-C and SIGTERM as long as it lives, instead of dying of them.
class StopSignals {
 public:
  StopSignals() {
    sigset_t signals;
    ::sigemptyset(&signals);
    ::sigaddset(&signals, SIGINT);
    ::sigaddset(&signals, SIGTERM);
    ::pthread_sigmask(SIG_BLOCK, &signals, &before_);
    fd_ = ::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals() {
    if (fd_ >= 0) ::close(fd_);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

  int fd() const { return fd_; }  ///< readable when one has come
  /// The name of the one that has come, empty when none has.
  std::string received() const {
    signalfd_siginfo info{};
    if (::read(fd_, &info, sizeof info) != sizeof info) return "";
    return info.ssi_signo == SIGINT ? "SIGINT" : "SIGTERM";
  }

 private:
  sigset_t before_{};
  int fd_ = -1;
};

/// A progress bar where somebody sits at a terminal; the stages' own lines everywhere.
class Console final : public PipelineObserver {
 public:
  ~Console() override { clear_bar(); }

  void on_progress(double audio_seconds, double total_seconds, double run_seconds) override {
    if (!terminal_) return;
    constexpr int kWidth = 32;
    const int filled = static_cast<int>(std::lround(kWidth * std::min(1.0, audio_seconds / total_seconds)));
    const std::string bar = std::string(static_cast<std::size_t>(filled), '#') +
                            std::string(static_cast<std::size_t>(kWidth - filled), '-');
    std::fprintf(stderr, "\r[%s] %.1f of %.1f s, real-time factor %.3f\033[K", bar.c_str(), audio_seconds,
                 total_seconds, audio_seconds > 0 ? run_seconds / audio_seconds : 0.0);
    std::fflush(stderr);
    drawn_ = true;
  }

  void on_stage_output(int stage_id, std::string_view line) override {
    clear_bar();
    std::fprintf(stderr, "[stage %d] %.*s\n", stage_id, static_cast<int>(line.size()), line.data());
  }

  void on_note(std::string_view line) override {
    clear_bar();
    std::fprintf(stderr, "stagewire serve: %.*s\n", static_cast<int>(line.size()), line.data());
  }

 private:
  void clear_bar() {
    if (drawn_) std::fputs("\r\033[K", stderr);
    drawn_ = false;
  }
  bool terminal_ = ::isatty(STDERR_FILENO) == 1;
  bool drawn_ = false;
};

/// The plan, its warnings printed; or nothing, and every error of the file.
std::optional<DeployPlan> load_plan(const ServeArguments& arguments) {
  DeployOptions options;
  options.overrides = arguments.overrides;
  DeployResult loaded = load_deploy(arguments.deploy_config, options);
  for (const Diagnostic& diagnostic : loaded.diagnostics) {
    if (!loaded.plan || diagnostic.severity == Diagnostic::Severity::warning)
      std::fprintf(stderr, "%s\n", diagnostic.to_string().c_str());
  }
  return std::move(loaded.plan);
}

/// What a node that is not the master has to say at the end.
int present(const NodeReport& report, double audio_seconds) {
  std::printf("this node's part of %llu request%s is done, %.2f s of audio; the master has the report\n",
              static_cast<unsigned long long>(report.requests_done), report.requests_done == 1 ? "" : "s",
              audio_seconds);
  std::fflush(stdout);
  if (report.requests_failed == 0) return 0;
  complain(std::to_string(report.requests_failed) +
           (report.requests_failed == 1 ? " request failed" : " requests failed") + ": the master says why");
  return kRunError;
}

/// What a run came to, for the one who started it.
int present(const PipelineReport& report, bool log_stats) {
  if (report.node) return present(*report.node, report.audio_seconds);
  if (log_stats) std::fputs(to_text(report).c_str(), stdout);
  if (report.requests.empty()) {
    std::printf("wrote %s: %.2f s of audio\n", report.output.c_str(), report.audio_seconds);
    return 0;
  }
  const std::size_t failed = report.failed_count();
  const std::size_t done = report.requests.size() - failed;
  std::printf("replayed %zu request%s, %.2f s of audio, every byte checked\n", done, done == 1 ? "" : "s",
              report.audio_seconds);
  std::fflush(stdout);
  for (const RequestReport& request : report.requests) {
    if (!request.error.empty()) complain("request " + request.id + " failed: " + request.error);
  }
  if (failed > 0)
    complain(std::to_string(failed) + " of " + std::to_string(report.requests.size()) + " requests failed");
  return failed == 0 ? 0 : kRunError;
}

int serve(const CLI::App& app, const ServeArguments& arguments) {
  auto plan = load_plan(arguments);
  if (!plan) return kUsageError;
  const StopSignals signals;
  PipelineOptions options;
  options.plan = std::move(*plan);
  options.stop_fd = signals.fd();
  const Status applied = apply_arguments(app, arguments, options);
  if (!applied.ok()) {
    complain(applied.error().message());
    return kUsageError;
  }
  const auto pipeline = Pipeline::create(options);
  if (!pipeline.ok()) {
    complain(pipeline.error().message());
    return kUsageError;
  }
  const auto report = [&] {
    Console console;
    return (*pipeline)->run(console);
  }();
  if (!report.ok()) {
    const std::string signal = signals.received();
    complain(signal.empty() ? report.error().to_string() : "interrupted by " + signal);
    return kRunError;
  }
  return present(*report, arguments.log_stats);
}

/// A stage process is started without the options that a user must give.
bool is_stage_process(int argc, char** argv) {
  return argc == 5 && std::string_view(argv[3]) == "--pipeline-fd";
}

}  // namespace

int serve_command(int argc, char** argv) {
  if (is_stage_process(argc, argv)) return run_stage_process(std::atoi(argv[4]));
  ServeArguments arguments;
  CLI::App app("Runs the pipeline of a deploy file: over one input, or as a replay of a model's traffic.",
               "stagewire serve");
  define_options(app, arguments);
  try {
    std::vector<std::string> words = with_long_names(argc, argv);
    std::reverse(words.begin(), words.end());  // as CLI11 takes them
    app.parse(std::move(words));
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    complain(std::string(error.what()) + " (stagewire serve --help lists the options)");
    return kUsageError;
  }
  return serve(app, arguments);
}

}  // namespace stagewire::cli
