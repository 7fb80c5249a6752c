#include "pipeline/speech/audio_format.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"

namespace stagewire::pipeline::speech {

Status check_format(const AudioFormat& format) {
  static constexpr std::array kRates{8'000, 12'000, 16'000, 24'000, 48'000};
  if (std::find(kRates.begin(), kRates.end(), format.sample_rate) == kRates.end()) {
    return base::error(ErrorCode::invalid_argument,
                       "the codec takes 8000, 12000, 16000, 24000 or 48000 Hz, not ", format.sample_rate,
                       " Hz; convert it, for example: sox in.wav -r 48000 out.wav");
  }
  if (format.channels != 1 && format.channels != 2) {
    return base::error(ErrorCode::invalid_argument, "the codec takes 1 or 2 channels, not ", format.channels,
                       "; convert it, for example: sox in.wav -c 1 out.wav");
  }
  return {};
}

}  // namespace stagewire::pipeline::speech
