// Writes a 16-bit PCM WAV file while its length is not known yet: the sizes in the header are set at the end.
#pragma once

#include <cstdint>
#include <span>

#include "pipeline/speech/audio_format.hpp"
#include "stagewire/result.hpp"

namespace stagewire::pipeline::speech {

/// One thread at a time. Until finish() the file's header says that it has no audio, so that what a crash
/// leaves never looks whole.
class WavWriter {
 public:
  /// Writes the header at the file's beginning. `file` is borrowed: an empty file, open for writing, that the
  /// caller keeps open longer than the writer lives.
  static Result<WavWriter> begin(int file, const AudioFormat& format);

  /// Interleaved values, whole samples. `too_large` beyond the 4 GiB that a WAV file can hold.
  Status append(std::span<const std::int16_t> values);
  /// Sets the sizes. Nothing is appended afterwards.
  Status finish();

  std::uint64_t samples_written() const { return data_size_ / sample_size(); }

 private:
  WavWriter(int file, const AudioFormat& format) : file_(file), format_(format) {}
  std::uint64_t sample_size() const {
    return sizeof(std::int16_t) * static_cast<std::uint64_t>(format_.channels);
  }
  Status write_header();

  int file_;
  AudioFormat format_;
  std::uint64_t data_size_ = 0;  // bytes of audio
};

}  // namespace stagewire::pipeline::speech
