#include "pipeline/speech/frame_reader.hpp"

namespace stagewire::pipeline::speech {

Result<std::size_t> FrameReader::next(std::size_t frame_count, std::vector<float>& values) {
  values.assign(frame_count * format().frame_values(), 0.0F);
  auto samples = reader_.read(values);
  if (!samples.ok()) return samples.error();
  const std::size_t frame_samples = format().frame_samples();
  const std::size_t frames = (*samples + frame_samples - 1) / frame_samples;
  values.resize(frames * format().frame_values());
  return frames;
}

}  // namespace stagewire::pipeline::speech
