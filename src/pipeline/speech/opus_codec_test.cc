#include "pipeline/speech/opus_codec.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "pipeline/speech/frame_reader.hpp"
#include "pipeline/speech/reference.hpp"
#include "support/temp_dir.hpp"
#include "support/wav_bytes.hpp"

namespace stagewire::pipeline::speech {
namespace {

using ::testing::HasSubstr;

/// `samples` of a tone, the second channel softer.
std::vector<float> tone(const AudioFormat& format, std::size_t samples) {
  std::vector<float> values;
  for (std::size_t i = 0; i < samples; ++i) {
    const double phase = 2 * M_PI * 440 * static_cast<double>(i) / format.sample_rate;
    for (int c = 0; c < format.channels; ++c)
      values.push_back(static_cast<float>(std::sin(phase) / (2 + 2 * c)));
  }
  return values;
}

/// Signal to noise in dB of what was decoded, without the first 100 ms, in which the codec settles.
double signal_to_noise(const AudioFormat& format, const std::vector<float>& original,
                       const std::vector<std::int16_t>& decoded) {
  double signal = 0;
  double noise = 0;
  for (std::size_t i = 5 * format.frame_values(); i < decoded.size(); ++i) {
    const double difference = original[i] - decoded[i] / 32768.0;
    signal += original[i] * original[i];
    noise += difference * difference;
  }
  return 10 * std::log10(signal / noise);
}

std::vector<Packet> encode_all(SpeechEncoder& encoder, std::vector<float> values) {
  const std::size_t frame = encoder.stream().format.frame_values();
  values.resize((values.size() + frame - 1) / frame * frame);
  std::vector<Packet> packets;
  EXPECT_TRUE(encoder.encode(values, packets).ok());
  EXPECT_TRUE(encoder.finish(packets).ok());
  return packets;
}

TEST(OpusCodec, round_trip_keeps_length_and_place_at_every_rate) {
  for (const int rate : {8'000, 12'000, 16'000, 24'000, 48'000}) {
    for (const int channels : {1, 2}) {
      const AudioFormat format{rate, channels};
      // Lengths around a frame's end, where the lookahead needs another frame, or not.
      for (const std::size_t extra : {std::size_t{0}, std::size_t{1}, format.frame_samples() - 1}) {
        const std::size_t samples = 15 * format.frame_samples() + extra;
        const std::vector<float> original = tone(format, samples);
        auto encoder = SpeechEncoder::create(format, samples);
        ASSERT_TRUE(encoder.ok()) << encoder.error().to_string();
        const auto packets = encode_all(*encoder, original);
        EXPECT_EQ(packets.size(), encoder->stream().frame_count());
        auto decoder = SpeechDecoder::create(encoder->stream());
        ASSERT_TRUE(decoder.ok()) << decoder.error().to_string();
        std::vector<std::int16_t> decoded;
        for (const Packet& packet : packets) ASSERT_TRUE(decoder->decode(packet, decoded).ok());
        EXPECT_TRUE(decoder->finish().ok());
        ASSERT_EQ(decoded.size(), original.size());
        EXPECT_GT(signal_to_noise(format, original, decoded), 10)
            << rate << " Hz, " << channels << " channels";
      }
    }
  }
}

TEST(OpusCodec, both_ends_count_the_frames) {
  const AudioFormat format{16'000, 1};
  auto encoder = SpeechEncoder::create(format, 10 * format.frame_samples());
  ASSERT_TRUE(encoder.ok());
  std::vector<Packet> packets;
  ASSERT_TRUE(encoder->encode(tone(format, 3 * format.frame_samples()), packets).ok());
  const Status early = encoder->finish(packets);
  ASSERT_FALSE(early.ok());
  EXPECT_THAT(early.error().message(), HasSubstr("3 frames were encoded"));
  const Status torn = encoder->encode(tone(format, 17), packets);
  ASSERT_FALSE(torn.ok());
  EXPECT_EQ(torn.error().code(), ErrorCode::invalid_argument);

  auto decoder = SpeechDecoder::create(encoder->stream());
  ASSERT_TRUE(decoder.ok());
  std::vector<std::int16_t> values;
  ASSERT_TRUE(decoder->decode(packets.front(), values).ok());
  EXPECT_FALSE(decoder->finish().ok());
}

TEST(OpusCodec, the_decoder_refuses_what_no_encoder_made) {
  auto decoder = SpeechDecoder::create({{16'000, 1}, 1'000, 104});
  ASSERT_TRUE(decoder.ok());
  std::vector<std::int16_t> values;
  EXPECT_FALSE(decoder->decode(Packet{}, values).ok());
  EXPECT_FALSE(decoder->decode(Packet(2'000), values).ok());
  EXPECT_FALSE(decoder->decode(Packet(3, std::byte{0xFF}), values).ok());
  EXPECT_TRUE(values.empty());
  for (const StreamInfo& bad :
       {StreamInfo{{16'000, 1}, 0, 104}, StreamInfo{{16'000, 1}, 1'000, -1},
        StreamInfo{{16'001, 1}, 1'000, 104}, StreamInfo{{16'000, 3}, 1'000, 104},
        StreamInfo{{16'000, 1}, ~0ULL, 104}, StreamInfo{{16'000, 1}, 1'000, 16'001}}) {
    EXPECT_FALSE(SpeechDecoder::create(bad).ok());
  }
}

TEST(FrameReader, fills_the_last_frame_with_silence) {
  const test::TempDir dir;
  test::write_file(dir.file("a.wav"),
                   test::wav_file({}, test::pcm16_bytes(std::vector<std::int16_t>(700, 16384))));
  auto wav = WavReader::open(dir.file("a.wav"));
  ASSERT_TRUE(wav.ok());
  FrameReader reader(std::move(*wav));
  std::vector<float> values;
  EXPECT_EQ(*reader.next(2, values), 2U);
  EXPECT_EQ(values.size(), 640U);
  EXPECT_FALSE(reader.at_end());
  EXPECT_EQ(*reader.next(2, values), 1U);
  ASSERT_EQ(values.size(), 320U);
  EXPECT_EQ(values[59], 0.5F);
  EXPECT_EQ(values[60], 0.0F);
  EXPECT_TRUE(reader.at_end());
  EXPECT_EQ(*reader.next(2, values), 0U);
}

TEST(Reference, codes_the_example_to_the_same_length_each_time) {
  const std::string example = std::string(STAGEWIRE_SOURCE_DIR) + "/examples/speech.wav";
  const auto once = code_in_one_process(example);
  ASSERT_TRUE(once.ok()) << once.error().to_string();
  EXPECT_EQ(once->size(), WavReader::open(example)->samples_left());
  EXPECT_EQ(*code_in_one_process(example), *once);
}

}  // namespace
}  // namespace stagewire::pipeline::speech
