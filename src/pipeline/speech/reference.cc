#include "pipeline/speech/reference.hpp"

#include "pipeline/speech/frame_reader.hpp"
#include "pipeline/speech/opus_codec.hpp"

namespace stagewire::pipeline::speech {

Result<std::vector<std::int16_t>> code_in_one_process(const std::string& input) {
  auto wav = WavReader::open(input);
  if (!wav.ok()) return wav.error();
  FrameReader reader(std::move(*wav));
  auto encoder = SpeechEncoder::create(reader.format(), reader.sample_count());
  if (!encoder.ok()) return encoder.error();
  auto decoder = SpeechDecoder::create(encoder->stream());
  if (!decoder.ok()) return decoder.error();

  std::vector<float> frame;
  std::vector<Packet> packets;
  while (!reader.at_end()) {
    if (auto count = reader.next(1, frame); !count.ok()) return count.error();
    if (Status status = encoder->encode(frame, packets); !status.ok()) return status.error();
  }
  if (Status status = encoder->finish(packets); !status.ok()) return status.error();
  std::vector<std::int16_t> values;
  for (const Packet& packet : packets) {
    if (Status status = decoder->decode(packet, values); !status.ok()) return status.error();
  }
  if (Status status = decoder->finish(); !status.ok()) return status.error();
  return values;
}

}  // namespace stagewire::pipeline::speech
