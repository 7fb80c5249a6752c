#include "pipeline/speech/opus_codec.hpp"

#include <opus.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "base/text.hpp"

namespace stagewire::pipeline::speech {
namespace {

constexpr int kBitsPerSecond = 32'000;         // for each channel
constexpr int kComplexity = 8;                 // of 10
constexpr std::size_t kMaxPacketSize = 1'500;  // a 20 ms packet has at most 1275 bytes and a few of framing

Error opus_error(std::string_view what, int code) {
  return base::error(ErrorCode::failed, "libopus: ", what, ": ", opus_strerror(code));
}

std::int16_t to_pcm16(float value) {
  return static_cast<std::int16_t>(std::clamp(std::lrint(value * 32768.0F), -32768L, 32767L));
}

}  // namespace

std::uint64_t StreamInfo::frame_count() const {
  const std::uint64_t frame_samples = format.frame_samples();
  return (sample_count + static_cast<std::uint64_t>(lookahead) + frame_samples - 1) / frame_samples;
}

Status check_stream(const StreamInfo& stream) {
  const bool format_ok = check_format(stream.format).ok();
  const bool counts_ok = stream.sample_count > 0 && stream.sample_count < (1ULL << 48) &&
                         stream.lookahead >= 0 && stream.lookahead <= stream.format.sample_rate;
  if (format_ok && counts_ok) return {};
  return base::error(ErrorCode::corrupt, "no stream of the speech encoder: ", stream.sample_count,
                     " samples at ", stream.format.sample_rate, " Hz, ", stream.format.channels,
                     " channels, lookahead ", stream.lookahead);
}

void SpeechEncoder::Deleter::operator()(OpusEncoder* encoder) const {
  opus_encoder_destroy(encoder);
}
void SpeechDecoder::Deleter::operator()(OpusDecoder* decoder) const {
  opus_decoder_destroy(decoder);
}

Result<SpeechEncoder> SpeechEncoder::create(const AudioFormat& format, std::uint64_t sample_count) {
  if (Status status = check_stream({format, sample_count, 0}); !status.ok()) return status.error();
  int code = OPUS_OK;
  SpeechEncoder made(opus_encoder_create(format.sample_rate, format.channels, OPUS_APPLICATION_AUDIO, &code));
  if (code != OPUS_OK) return opus_error("creating an encoder", code);
  OpusEncoder* encoder = made.encoder_.get();
  opus_int32 lookahead = 0;
  code = opus_encoder_ctl(encoder, OPUS_SET_BITRATE(kBitsPerSecond * format.channels));
  if (code == OPUS_OK) code = opus_encoder_ctl(encoder, OPUS_SET_COMPLEXITY(kComplexity));
  if (code == OPUS_OK) code = opus_encoder_ctl(encoder, OPUS_GET_LOOKAHEAD(&lookahead));
  if (code != OPUS_OK) return opus_error("setting up the encoder", code);
  made.stream_ = {format, sample_count, lookahead};
  return made;
}

Status SpeechEncoder::encode(std::span<const float> frames, std::vector<Packet>& packets) {
  const std::size_t frame_values = stream_.format.frame_values();
  if (frames.size() % frame_values != 0) {
    return base::error(ErrorCode::invalid_argument, frames.size(),
                       " values are no whole number of frames of ", frame_values);
  }
  for (; !frames.empty(); frames = frames.subspan(frame_values)) {
    Packet packet(kMaxPacketSize);
    const opus_int32 size = opus_encode_float(
        encoder_.get(), frames.data(), static_cast<int>(stream_.format.frame_samples()),
        reinterpret_cast<unsigned char*>(packet.data()), static_cast<opus_int32>(packet.size()));
    if (size < 0) return opus_error("encoding a frame", size);
    packet.resize(static_cast<std::size_t>(size));
    packets.push_back(std::move(packet));
    ++frames_encoded_;
  }
  return {};
}

Status SpeechEncoder::finish(std::vector<Packet>& packets) {
  const std::uint64_t wanted = stream_.frame_count();
  // The lookahead is shorter than a frame: at most one is missing.
  if (frames_encoded_ + 1 == wanted) {
    const std::vector<float> silence(stream_.format.frame_values());
    if (Status status = encode(silence, packets); !status.ok()) return status;
  }
  if (frames_encoded_ == wanted) return {};
  return base::error(ErrorCode::corrupt, frames_encoded_, " frames were encoded, ", stream_.sample_count,
                     " samples make ", wanted);
}

Result<SpeechDecoder> SpeechDecoder::create(const StreamInfo& stream) {
  if (Status status = check_stream(stream); !status.ok()) return status.error();
  int code = OPUS_OK;
  SpeechDecoder made(opus_decoder_create(stream.format.sample_rate, stream.format.channels, &code));
  if (code != OPUS_OK) return opus_error("creating a decoder", code);
  made.stream_ = stream;
  made.samples_to_skip_ = static_cast<std::uint64_t>(stream.lookahead);
  made.frame_.resize(stream.format.frame_values());
  return made;
}

Status SpeechDecoder::decode(std::span<const std::byte> packet, std::vector<std::int16_t>& values) {
  const auto frame_samples = static_cast<int>(stream_.format.frame_samples());
  // An empty packet would mean "lost, make something up" to libopus.
  if (packet.empty() || packet.size() > kMaxPacketSize) {
    return base::error(ErrorCode::corrupt, "a codec frame of ", packet.size(), " bytes, 1 to ",
                       kMaxPacketSize, " are possible");
  }
  const int decoded =
      opus_decode_float(decoder_.get(), reinterpret_cast<const unsigned char*>(packet.data()),
                        static_cast<opus_int32>(packet.size()), frame_.data(), frame_samples, 0);
  if (decoded < 0) return opus_error("decoding a frame", decoded);
  if (decoded != frame_samples) {
    return base::error(ErrorCode::corrupt, "a codec frame of ", decoded, " samples, not ", frame_samples);
  }
  auto left = static_cast<std::uint64_t>(decoded);
  const std::uint64_t skipped = std::min(left, samples_to_skip_);
  samples_to_skip_ -= skipped;
  left = std::min(left - skipped, stream_.sample_count - samples_decoded_);
  samples_decoded_ += left;
  const auto channels = static_cast<std::uint64_t>(stream_.format.channels);
  const auto kept = std::span(frame_).subspan(skipped * channels, left * channels);
  std::transform(kept.begin(), kept.end(), std::back_inserter(values), to_pcm16);
  return {};
}

Status SpeechDecoder::finish() const {
  if (samples_decoded_ == stream_.sample_count) return {};
  return base::error(ErrorCode::corrupt, "the stream ended after ", samples_decoded_, " of ",
                     stream_.sample_count, " samples");
}

}  // namespace stagewire::pipeline::speech
