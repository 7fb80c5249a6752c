// Cuts a WAV file into frames of 20 ms.
#pragma once

#include <cstddef>
#include <vector>

#include "pipeline/speech/wav_reader.hpp"

namespace stagewire::pipeline::speech {

/// One thread at a time. The last frame is filled up with silence; the stream's sample count says where the
/// audio ends.
class FrameReader {
 public:
  explicit FrameReader(WavReader reader) : reader_(std::move(reader)) {}

  const AudioFormat& format() const { return reader_.format().audio; }
  std::uint64_t sample_count() const { return reader_.format().sample_count; }  ///< of the whole file
  bool at_end() const { return reader_.samples_left() == 0; }

  /// Replaces `values` by at most `frame_count` frames, whole ones; returns how many there were. 0 = the end.
  Result<std::size_t> next(std::size_t frame_count, std::vector<float>& values);

 private:
  WavReader reader_;
};

}  // namespace stagewire::pipeline::speech
