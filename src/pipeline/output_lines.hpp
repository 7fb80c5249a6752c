// What a stage process prints: cut into lines as it comes, the last few kept.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <string_view>

namespace stagewire::pipeline {

/// One thread at a time.
class OutputLines {
 public:
  using Sink = std::function<void(std::string_view line)>;

  /// Reads what there is from a non-blocking descriptor and gives each whole line to `sink`; a line longer
  /// than 4 KiB in pieces. False when the other end is closed: then the rest, too, has been given out.
  bool read_from(int fd, const Sink& sink);

  /// The last lines (three at most), for an error message; empty when there were none.
  std::string last_words() const;

 private:
  void take(std::string_view bytes, const Sink& sink);
  void give_out(const Sink& sink);

  std::string partial_;  // a line that has not ended yet
  std::deque<std::string> last_;
};

}  // namespace stagewire::pipeline
