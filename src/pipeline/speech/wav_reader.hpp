// Reads the audio of a WAV file, from its beginning to its end.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "pipeline/speech/wav_format.hpp"

namespace stagewire::pipeline::speech {

/// One thread at a time. Blocks on the file system only.
class WavReader {
 public:
  /// Opens a regular file and checks its headers; errors name the path. `not_found`, `permission`, and what
  /// parse_wav() says.
  static Result<WavReader> open(const std::string& path);

  const WavFormat& format() const { return format_; }
  std::uint64_t samples_left() const { return format_.sample_count - position_; }

  /// Reads whole samples, as many as there are and `out` holds; returns how many. 0 = the end.
  Result<std::size_t> read(std::span<float> out);

 private:
  WavReader(std::string path, base::UniqueFd file) : path_(std::move(path)), file_(std::move(file)) {}
  Status read_at(std::uint64_t offset, std::span<std::byte> out) const;

  std::string path_;
  base::UniqueFd file_;
  WavFormat format_;
  std::uint64_t position_ = 0;     // samples read
  std::vector<std::byte> buffer_;  // kept, so that reading allocates once
};

}  // namespace stagewire::pipeline::speech
