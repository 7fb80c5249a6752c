// parse_wav() and decode_values() on arbitrary bytes: an error or a format whose audio lies within the file.
#include <cstdlib>
#include <cstring>
#include <vector>

#include "pipeline/speech/wav_format.hpp"

namespace speech = stagewire::pipeline::speech;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span file(reinterpret_cast<const std::byte*>(data), size);
  const auto wav =
      speech::parse_wav(size, [file](std::uint64_t offset, std::span<std::byte> out) -> stagewire::Status {
        if (offset > file.size() || out.size() > file.size() - offset) std::abort();
        if (!out.empty()) std::memcpy(out.data(), file.data() + offset, out.size());
        return {};
      });
  if (!wav.ok()) return 0;
  const std::uint64_t audio_size = wav->sample_count * wav->sample_size();
  if (audio_size == 0 || wav->data_offset > size || audio_size > size - wav->data_offset) std::abort();
  std::vector<float> values(audio_size / speech::value_size(wav->encoding));
  const auto status =
      speech::decode_values(wav->encoding, file.subspan(wav->data_offset, audio_size), values);
  for (const float value : values) {
    if (status.ok() && !(value >= -1.0F && value <= 1.0F)) std::abort();
  }
  return 0;
}
