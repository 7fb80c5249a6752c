#include "pipeline/output_lines.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>

namespace stagewire::pipeline {
namespace {

constexpr std::size_t kMaxLineSize = 4096;
constexpr std::size_t kLinesKept = 3;

}  // namespace

bool OutputLines::read_from(int fd, const Sink& sink) {
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t size = ::read(fd, buffer.data(), buffer.size());
    if (size > 0) {
      take({buffer.data(), static_cast<std::size_t>(size)}, sink);
    } else if (size < 0 && errno == EINTR) {
      continue;
    } else if (size < 0 && errno == EAGAIN) {
      return true;
    } else {
      if (!partial_.empty()) give_out(sink);
      return false;
    }
  }
}

void OutputLines::take(std::string_view bytes, const Sink& sink) {
  for (const char c : bytes) {
    if (c != '\n') partial_.push_back(c);
    if (c == '\n' || partial_.size() == kMaxLineSize) give_out(sink);
  }
}

void OutputLines::give_out(const Sink& sink) {
  sink(partial_);
  last_.push_back(std::move(partial_));
  if (last_.size() > kLinesKept) last_.pop_front();
  partial_.clear();
}

std::string OutputLines::last_words() const {
  std::string words;
  for (const std::string& line : last_) words += (words.empty() ? "" : " | ") + line;
  return words;
}

}  // namespace stagewire::pipeline
