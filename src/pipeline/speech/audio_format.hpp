// What the three speech stages agree on about a stream of audio.
//
// A *sample* is one point in time: with two channels it has two values, which are stored side by side
// (interleaved). A *frame* is 20 ms of samples, what the codec takes at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "stagewire/result.hpp"

namespace stagewire::pipeline::speech {

inline constexpr int kFramesPerSecond = 50;

struct AudioFormat {
  int sample_rate = 0;  ///< samples per second
  int channels = 0;

  std::size_t frame_samples() const { return static_cast<std::size_t>(sample_rate / kFramesPerSecond); }
  std::size_t frame_values() const { return frame_samples() * static_cast<std::size_t>(channels); }
  double seconds(std::uint64_t samples) const { return static_cast<double>(samples) / sample_rate; }
  bool operator==(const AudioFormat&) const = default;
};

/// `invalid_argument` unless the codec takes this rate and this number of channels as they are.
Status check_format(const AudioFormat& format);

}  // namespace stagewire::pipeline::speech
