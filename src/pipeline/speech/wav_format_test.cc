#include "pipeline/speech/wav_format.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "support/wav_bytes.hpp"

namespace stagewire::pipeline::speech {
namespace {

using test::WavFields;
using ::testing::HasSubstr;

Result<WavFormat> parse(const std::string& file) {
  return parse_wav(file.size(), [&file](std::uint64_t offset, std::span<std::byte> out) -> Status {
    EXPECT_LE(offset + out.size(), file.size()) << "asked for bytes behind the end";
    std::memcpy(out.data(), file.data() + offset, out.size());
    return {};
  });
}

void expect_error(const std::string& file, ErrorCode code, const std::string& words) {
  const auto wav = parse(file);
  ASSERT_FALSE(wav.ok()) << words;
  EXPECT_EQ(wav.error().code(), code) << wav.error().to_string();
  EXPECT_THAT(wav.error().message(), HasSubstr(words));
}

std::vector<float> decode(SampleEncoding encoding, const std::string& bytes) {
  std::vector<float> values(bytes.size() / value_size(encoding));
  const Status status = decode_values(encoding, std::as_bytes(std::span(bytes)), values);
  EXPECT_TRUE(status.ok()) << status.error().to_string();
  return values;
}

TEST(WavFormat, finds_the_audio_behind_other_chunks) {
  const std::string audio(8, 'x');
  const std::string before = test::riff_chunk("LIST", "odd") + test::format_chunk({.channels = 2}) +
                             test::riff_chunk("fact", std::string(4, '\0'));
  const auto wav =
      parse(test::riff_file(before + test::riff_chunk("data", audio) + test::riff_chunk("LIST", "late")));
  ASSERT_TRUE(wav.ok()) << wav.error().to_string();
  EXPECT_EQ(wav->audio, (AudioFormat{16'000, 2}));
  EXPECT_EQ(wav->encoding, SampleEncoding::pcm16);
  EXPECT_EQ(wav->sample_count, 2U);
  EXPECT_EQ(wav->data_offset, 12 + before.size() + 8);
}

TEST(WavFormat, a_second_piece_of_audio_is_refused_and_not_left_out) {
  const std::string data = test::riff_chunk("data", std::string(8, 'x'));
  expect_error(test::riff_file(test::format_chunk({}) + data + test::riff_chunk("LIST", "odd") + data),
               ErrorCode::unsupported, "a second \"data\" chunk, at byte 64");
  EXPECT_TRUE(parse(test::riff_file(test::format_chunk({}) + data) + "data").ok())
      << "no whole chunk behind it";
}

TEST(WavFormat, reads_the_encoding_of_an_extensible_header) {
  const std::string extensible = test::riff_chunk(
      "fmt ", test::little_endian(0xFFFE, 2) + test::little_endian(1, 2) + test::little_endian(48'000, 4) +
                  test::little_endian(192'000, 4) + test::little_endian(4, 2) + test::little_endian(32, 2) +
                  test::little_endian(22, 2) + std::string(6, '\0') + test::little_endian(3, 2) +
                  std::string(14, '\0'));
  const auto wav = parse(test::riff_file(extensible + test::riff_chunk("data", std::string(8, '\0'))));
  ASSERT_TRUE(wav.ok()) << wav.error().to_string();
  EXPECT_EQ(wav->encoding, SampleEncoding::float32);
}

TEST(WavFormat, takes_every_rate_of_the_codec_and_no_other) {
  for (const unsigned rate : {8'000U, 12'000U, 16'000U, 24'000U, 48'000U}) {
    EXPECT_TRUE(parse(test::wav_file({.sample_rate = rate}, "ab")).ok()) << rate;
  }
  expect_error(test::wav_file({.sample_rate = 22'050}, "ab"), ErrorCode::invalid_argument,
               "not 22050 Hz; convert it");
  expect_error(test::wav_file({.sample_rate = 0xFFFFFFFF}, "ab"), ErrorCode::invalid_argument,
               "Hz; convert it");
}

TEST(WavFormat, names_what_is_wrong) {
  expect_error("", ErrorCode::corrupt, "empty (0 bytes)");
  expect_error("RIFF", ErrorCode::corrupt, "takes 12 bytes, 4 are there");
  expect_error("%PDF-1.7 something else", ErrorCode::corrupt, "not a WAV file");
  expect_error("RF64" + std::string(30, 'x'), ErrorCode::unsupported, "RF64");
  expect_error(test::riff_file(""), ErrorCode::corrupt, "without its \"fmt \" chunk");
  expect_error(test::riff_file(test::riff_chunk("fmt ", "short")), ErrorCode::corrupt,
               "has 5 bytes, at least 16");
  expect_error(test::riff_file(test::riff_chunk("fmt ", "short", 16)), ErrorCode::corrupt,
               "takes 16 bytes, 6 are");
  expect_error(test::riff_file(test::format_chunk({})), ErrorCode::corrupt, "without its audio");
  expect_error(test::riff_file(test::riff_chunk("data", "ab") + test::format_chunk({})), ErrorCode::corrupt,
               "before its \"fmt \"");
  expect_error(test::wav_file({}, ""), ErrorCode::invalid_argument, "has no audio");
  expect_error(test::wav_file({}, "abc"), ErrorCode::corrupt, "no whole number of samples");
  expect_error(test::wav_file({.format = 7, .bits = 8}, "ab"), ErrorCode::unsupported,
               "not PCM (WAVE format 7)");
  expect_error(test::wav_file({.bits = 8}, "ab"), ErrorCode::unsupported, "8-bit PCM is not read");
  expect_error(test::wav_file({.channels = 6}, std::string(12, 'x')), ErrorCode::invalid_argument, "not 6");
}

TEST(WavFormat, says_how_much_of_a_truncated_file_is_there) {
  const std::string whole = test::wav_file({}, std::string(100, 'x'));
  expect_error(whole.substr(0, whole.size() - 60), ErrorCode::corrupt,
               "its audio takes 100 bytes, 40 are there");
}

TEST(WavFormat, refuses_every_prefix_of_a_file) {
  const std::string whole = test::wav_file({}, "abcd");
  ASSERT_TRUE(parse(whole).ok());
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(parse(whole.substr(0, size)).ok()) << size;
}

TEST(WavFormat, chunk_sizes_near_4_GiB_do_not_wrap_around) {
  expect_error(test::riff_file(test::format_chunk({}) + test::riff_chunk("LIST", "", 0xFFFFFFFF)),
               ErrorCode::corrupt, "without its audio");
  expect_error(test::riff_file(test::format_chunk({}) + test::riff_chunk("data", "", 0xFFFFFFFF)),
               ErrorCode::corrupt, "its audio takes 4294967295 bytes, 0 are there");
}

TEST(WavFormat, a_flood_of_chunks_is_refused) {
  std::string chunks;
  for (int i = 0; i < 2'000; ++i) chunks += test::riff_chunk("junk", "");
  expect_error(test::riff_file(chunks), ErrorCode::corrupt, "more than 1024 chunks");
}

TEST(WavFormat, values_of_every_encoding_cover_minus_one_to_one) {
  EXPECT_EQ(decode(SampleEncoding::pcm16, test::little_endian(0x8000, 2) + test::little_endian(0x4000, 2)),
            (std::vector<float>{-1.0F, 0.5F}));
  EXPECT_EQ(
      decode(SampleEncoding::pcm24, test::little_endian(0x800000, 3) + test::little_endian(0x400000, 3)),
      (std::vector<float>{-1.0F, 0.5F}));
  EXPECT_EQ(
      decode(SampleEncoding::pcm32, test::little_endian(0x80000000, 4) + test::little_endian(0x40000000, 4)),
      (std::vector<float>{-1.0F, 0.5F}));
  EXPECT_EQ(decode(SampleEncoding::float32, test::little_endian(std::bit_cast<std::uint32_t>(0.25F), 4) +
                                                test::little_endian(std::bit_cast<std::uint32_t>(-7.0F), 4)),
            (std::vector<float>{0.25F, -1.0F}));
}

TEST(WavFormat, a_float_that_is_no_number_is_refused) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const std::string bytes = test::little_endian(std::bit_cast<std::uint32_t>(bad), 4);
    float value = 0;
    const Status status =
        decode_values(SampleEncoding::float32, std::as_bytes(std::span(bytes)), std::span(&value, 1));
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code(), ErrorCode::corrupt);
  }
}

}  // namespace
}  // namespace stagewire::pipeline::speech
