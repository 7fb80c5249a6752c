#include "base/log.hpp"

#include <time.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace stagewire {
namespace {

constexpr std::array<std::string_view, 5> kLevelNames = {"debug", "info", "warning", "error", "off"};

LogLevel level_from_environment() {
  const char* wanted = std::getenv("STAGEWIRE_LOG_LEVEL");
  if (wanted == nullptr) return LogLevel::info;
  for (std::size_t i = 0; i < kLevelNames.size(); ++i) {
    if (kLevelNames[i] == wanted) return static_cast<LogLevel>(i);
  }
  return LogLevel::info;
}

struct Writer {
  std::atomic<LogLevel> level{level_from_environment()};
  std::mutex mutex;
  std::function<void(LogLevel, std::string_view, std::string_view)> sink;
};

// Leaked on purpose: threads may still log while the process exits.
Writer& writer() {
  static auto* w = new Writer;
  return *w;
}

void write_to_stderr(LogLevel level, std::string_view room, std::string_view text) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm local{};
  localtime_r(&now.tv_sec, &local);
  std::array<char, 32> stamp{};
  std::strftime(stamp.data(), stamp.size(), "%H:%M:%S", &local);
  const std::string line =
      base::text(stamp.data(), ".", std::to_string(1000 + now.tv_nsec / 1'000'000).substr(1), " ",
                 kLevelNames[static_cast<std::size_t>(level)], " [", getpid(), " ", room, "] ", text, "\n");
  // One write(2) a line, so that lines of several processes do not mix.
  if (::write(STDERR_FILENO, line.data(), line.size()) < 0) return;
}

}  // namespace

void set_log_level(LogLevel level) {
  writer().level = level;
}
LogLevel log_level() {
  return writer().level;
}

void set_log_sink(std::function<void(LogLevel, std::string_view, std::string_view)> sink) {
  const std::lock_guard lock(writer().mutex);
  writer().sink = std::move(sink);
}

namespace base {

void write_log(LogLevel level, std::string_view room, std::string_view text) {
  const std::lock_guard lock(writer().mutex);
  if (writer().sink) {
    writer().sink(level, room, text);
  } else {
    write_to_stderr(level, room, text);
  }
}

std::optional<std::uint64_t> LogLimiter::admit(TimePoint now) {
  const std::int64_t at = now.time_since_epoch().count();
  std::int64_t next = next_.load();
  if (at < next || !next_.compare_exchange_strong(next, at + 1'000'000'000)) {
    held_.fetch_add(1);
    return std::nullopt;
  }
  return held_.exchange(0);
}

}  // namespace base
}  // namespace stagewire
