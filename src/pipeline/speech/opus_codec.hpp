// Speech to codec frames and back, with libopus: its float API, one fixed setting, 20 ms a frame.
//
// The encoder looks ahead: what it makes of a stream is delayed by `lookahead` samples. The encoder therefore
// adds a frame of silence where the last one does not leave that much room, and the decoder drops as many
// samples at the start: the decoded audio has exactly the samples of the original, at the same places.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "pipeline/speech/audio_format.hpp"
#include "stagewire/result.hpp"

struct OpusEncoder;
struct OpusDecoder;

namespace stagewire::pipeline::speech {

using Packet = std::vector<std::byte>;  ///< one codec frame

/// What a decoder must know of a stream beforehand.
struct StreamInfo {
  AudioFormat format;
  std::uint64_t sample_count = 0;  ///< of the original
  int lookahead = 0;               ///< samples that the encoder delays the audio by

  /// Frames that the encoder makes of the original, its added one included.
  std::uint64_t frame_count() const;
};

/// `corrupt` for a stream that no encoder of ours has made.
Status check_stream(const StreamInfo& stream);

/// One stream, one thread at a time.
class SpeechEncoder {
 public:
  static Result<SpeechEncoder> create(const AudioFormat& format, std::uint64_t sample_count);
  const StreamInfo& stream() const { return stream_; }

  /// Encodes whole frames and appends their packets to `packets`.
  Status encode(std::span<const float> frames, std::vector<Packet>& packets);
  /// After the last frame: appends what is still missing. `corrupt` when the frames were not those of
  /// sample_count.
  Status finish(std::vector<Packet>& packets);

 private:
  struct Deleter {
    void operator()(OpusEncoder* encoder) const;
  };
  explicit SpeechEncoder(OpusEncoder* encoder) : encoder_(encoder) {}
  std::unique_ptr<OpusEncoder, Deleter> encoder_;
  StreamInfo stream_;
  std::uint64_t frames_encoded_ = 0;
};

/// One stream, one thread at a time.
class SpeechDecoder {
 public:
  static Result<SpeechDecoder> create(const StreamInfo& stream);
  const StreamInfo& stream() const { return stream_; }

  /// Decodes one packet and appends the samples that belong to the original to `values`, interleaved 16-bit.
  Status decode(std::span<const std::byte> packet, std::vector<std::int16_t>& values);
  /// After the last packet: `corrupt` when samples are missing.
  Status finish() const;
  std::uint64_t samples_decoded() const { return samples_decoded_; }  ///< of the original

 private:
  struct Deleter {
    void operator()(OpusDecoder* decoder) const;
  };
  explicit SpeechDecoder(OpusDecoder* decoder) : decoder_(decoder) {}
  std::unique_ptr<OpusDecoder, Deleter> decoder_;
  StreamInfo stream_;
  std::uint64_t samples_to_skip_ = 0;
  std::uint64_t samples_decoded_ = 0;
  std::vector<float> frame_;
};

}  // namespace stagewire::pipeline::speech
