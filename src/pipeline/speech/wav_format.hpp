// The RIFF/WAVE container: where the audio lies in a file and how it is stored. A parser of outside bytes:
// every offset and length is checked against the file's size before it is used (fuzz/wav_fuzz.cc).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "pipeline/speech/audio_format.hpp"
#include "stagewire/result.hpp"

namespace stagewire::pipeline::speech {

enum class SampleEncoding { pcm16, pcm24, pcm32, float32 };

std::size_t value_size(SampleEncoding encoding);  ///< bytes of one value

struct WavFormat {
  AudioFormat audio;
  SampleEncoding encoding = SampleEncoding::pcm16;
  std::uint64_t data_offset = 0;   ///< of the first sample in the file, bytes
  std::uint64_t sample_count = 0;  ///< at least one

  std::size_t sample_size() const { return value_size(encoding) * static_cast<std::size_t>(audio.channels); }
};

/// Fills `out` from `offset`, all of it, or fails. Only asked for bytes below the file size that parse_wav()
/// was given.
using ReadAt = std::function<Status(std::uint64_t offset, std::span<std::byte> out)>;

/// Finds the audio of a file of `file_size` bytes. `corrupt`: not a WAV file, or one that contradicts itself
/// or ends early. `invalid_argument`: no audio in it, or a rate or channel count that the codec does not
/// take. `unsupported`: compressed, or of a sample format that is not read.
Result<WavFormat> parse_wav(std::uint64_t file_size, const ReadAt& read);

/// Converts stored samples to values in [-1, 1], in file order; `out` holds bytes.size() / value_size()
/// values. `corrupt` when a float value is not a finite number. Floats beyond the range are clipped.
Status decode_values(SampleEncoding encoding, std::span<const std::byte> bytes, std::span<float> out);

}  // namespace stagewire::pipeline::speech
