#include "pipeline/speech/wav_format.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/check.hpp"
#include "base/text.hpp"

namespace stagewire::pipeline::speech {
namespace {

constexpr std::uint64_t kRiffHeaderSize = 12;  // "RIFF", size, "WAVE"
constexpr std::uint64_t kChunkHeaderSize = 8;  // name, size
constexpr std::uint64_t kFormatSize = 16;      // the part of "fmt " that every file has
constexpr std::uint64_t kExtensibleSize = 40;  // WAVE_FORMAT_EXTENSIBLE with its sub-format
constexpr int kMaxChunks = 1024;               // before the audio; a file of ours has one, others a handful

constexpr unsigned kFormatPcm = 1;
constexpr unsigned kFormatFloat = 3;
constexpr unsigned kFormatExtensible = 0xFFFE;

std::uint32_t load_le(std::span<const std::byte> bytes, std::size_t offset, std::size_t size) {
  STAGEWIRE_CHECK(size <= 4 && offset <= bytes.size() && size <= bytes.size() - offset,
                  "WAV field outside its header");
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < size; ++i)
    value |= std::to_integer<std::uint32_t>(bytes[offset + i]) << (8 * i);
  return value;
}

bool is_tag(std::span<const std::byte> bytes, std::string_view tag) {
  return bytes.size() >= tag.size() && std::memcmp(bytes.data(), tag.data(), tag.size()) == 0;
}

struct Chunk {
  std::array<std::byte, kChunkHeaderSize> header{};
  std::uint64_t offset = 0;  // of its contents
  std::uint64_t size = 0;    // of its contents, as the file says: not yet checked

  bool is(std::string_view tag) const { return is_tag(header, tag); }
};

Error ends_early(std::string_view what, std::uint64_t wanted, std::uint64_t there) {
  return base::error(ErrorCode::corrupt, "the file is truncated: its ", what, " takes ", wanted, " bytes, ",
                     there, " are there");
}

Status check_riff_header(std::uint64_t file_size, const ReadAt& read) {
  if (file_size == 0) return base::error(ErrorCode::corrupt, "the file is empty (0 bytes), not a WAV file");
  if (file_size < kRiffHeaderSize) return ends_early("RIFF header", kRiffHeaderSize, file_size);
  std::array<std::byte, kRiffHeaderSize> header{};
  if (Status status = read(0, header); !status.ok()) return status;
  if (is_tag(header, "RF64") || is_tag(header, "RIFX")) {
    return base::error(ErrorCode::unsupported,
                       "RF64 and RIFX files are not read; convert it to a plain RIFF WAV file");
  }
  if (!is_tag(header, "RIFF") || !is_tag(std::span(header).subspan(8), "WAVE")) {
    return base::error(ErrorCode::corrupt, "not a WAV file: it does not begin with RIFF....WAVE");
  }
  return {};
}

/// The encoding that "fmt " names, or why it is not read.
Result<SampleEncoding> encoding_of(unsigned format, unsigned bits) {
  if (format == kFormatPcm && bits == 16) return SampleEncoding::pcm16;
  if (format == kFormatPcm && bits == 24) return SampleEncoding::pcm24;
  if (format == kFormatPcm && bits == 32) return SampleEncoding::pcm32;
  if (format == kFormatFloat && bits == 32) return SampleEncoding::float32;
  if (format == kFormatPcm || format == kFormatFloat) {
    return base::error(
        ErrorCode::unsupported, bits, "-bit ", format == kFormatPcm ? "PCM" : "float",
        " is not read, only PCM of 16, 24 or 32 bits and float of 32; convert it, for example: "
        "sox in.wav -b 16 -e signed-integer out.wav");
  }
  return base::error(ErrorCode::unsupported, "the audio is not PCM (WAVE format ", format,
                     "); convert it, for example: sox in.wav -b 16 -e signed-integer out.wav");
}

Status read_format(const Chunk& chunk, std::uint64_t file_size, const ReadAt& read, WavFormat& wav) {
  const std::uint64_t there = file_size - chunk.offset;
  if (chunk.size > there) return ends_early("\"fmt \" chunk", chunk.size, there);
  if (chunk.size < kFormatSize) {
    return base::error(ErrorCode::corrupt, "its \"fmt \" chunk has ", chunk.size, " bytes, at least ",
                       kFormatSize, " are needed");
  }
  std::array<std::byte, kExtensibleSize> buffer{};
  const std::span fields = std::span(buffer).first(std::min(chunk.size, kExtensibleSize));
  if (Status status = read(chunk.offset, fields); !status.ok()) return status;

  unsigned format = load_le(fields, 0, 2);
  if (format == kFormatExtensible) {
    if (chunk.size < kExtensibleSize) {
      return base::error(ErrorCode::corrupt, "its extensible \"fmt \" chunk has ", chunk.size, " bytes, not ",
                         kExtensibleSize);
    }
    format = load_le(fields, 24, 2);  // the sub-format's GUID begins with the plain format's number
  }
  const std::uint32_t channels = load_le(fields, 2, 2);
  const std::uint32_t sample_rate = load_le(fields, 4, 4);
  const std::uint32_t sample_size = load_le(fields, 12, 2);
  const std::uint32_t bits = load_le(fields, 14, 2);
  auto encoding = encoding_of(format, bits);
  if (!encoding.ok()) return encoding.error();
  wav.encoding = *encoding;
  // Rates beyond int are refused like all others that the codec does not take.
  wav.audio.sample_rate = static_cast<int>(std::min<std::uint32_t>(sample_rate, 1'000'000'000));
  wav.audio.channels = static_cast<int>(channels);
  if (Status status = check_format(wav.audio); !status.ok()) return status;
  if (sample_size != wav.sample_size()) {
    return base::error(ErrorCode::corrupt, "it says ", sample_size, " bytes a sample, but ", channels,
                       " channels of ", bits, " bits take ", wav.sample_size());
  }
  return {};
}

Status read_data(const Chunk& chunk, std::uint64_t file_size, WavFormat& wav) {
  const std::uint64_t there = file_size - chunk.offset;
  if (chunk.size > there) return ends_early("audio", chunk.size, there);
  if (chunk.size == 0) {
    return base::error(ErrorCode::invalid_argument, "the file has no audio: its \"data\" chunk has 0 bytes");
  }
  if (chunk.size % wav.sample_size() != 0) {
    return base::error(ErrorCode::corrupt, "its audio of ", chunk.size,
                       " bytes is no whole number of samples of ", wav.sample_size(), " bytes");
  }
  wav.data_offset = chunk.offset;
  wav.sample_count = chunk.size / wav.sample_size();
  return {};
}

std::uint64_t end_of(const Chunk& chunk) {
  return chunk.offset + chunk.size + chunk.size % 2;  // chunks begin at even offsets
}

/// A part of the audio that is left out in silence would be worse than a file that is refused.
Status check_no_more_audio(const Chunk& data, std::uint64_t file_size, const ReadAt& read) {
  Chunk chunk = data;
  for (int i = 0; i < kMaxChunks; ++i) {
    const std::uint64_t offset = end_of(chunk);
    if (offset >= file_size || file_size - offset < kChunkHeaderSize) return {};
    if (Status status = read(offset, chunk.header); !status.ok()) return status;
    chunk.offset = offset + kChunkHeaderSize;
    chunk.size = load_le(chunk.header, 4, 4);
    if (chunk.is("data")) {
      return base::error(ErrorCode::unsupported, "it has a second \"data\" chunk, at byte ", offset,
                         "; write its audio into one, for example: sox in.wav out.wav");
    }
  }
  return {};
}

/// Sign-extends the `size` low bytes.
std::int32_t load_signed(const std::byte* bytes, std::size_t size) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < size; ++i)
    value |= std::to_integer<std::uint32_t>(bytes[i]) << (8 * (4 - size + i));
  return static_cast<std::int32_t>(value) >> (8 * (4 - size));
}

}  // namespace

std::size_t value_size(SampleEncoding encoding) {
  switch (encoding) {
    case SampleEncoding::pcm16:
      return 2;
    case SampleEncoding::pcm24:
      return 3;
    case SampleEncoding::pcm32:
    case SampleEncoding::float32:
      return 4;
  }
  STAGEWIRE_CHECK(false, "unknown sample encoding");
  return 0;
}

Result<WavFormat> parse_wav(std::uint64_t file_size, const ReadAt& read) {
  if (Status status = check_riff_header(file_size, read); !status.ok()) return status.error();
  WavFormat wav;
  bool have_format = false;
  std::uint64_t offset = kRiffHeaderSize;
  for (int i = 0; i < kMaxChunks; ++i) {
    if (offset >= file_size || file_size - offset < kChunkHeaderSize) {
      return base::error(ErrorCode::corrupt, "the file is truncated: it ends at byte ", file_size,
                         " without ", have_format ? "its audio (a \"data\" chunk)" : "its \"fmt \" chunk");
    }
    Chunk chunk;
    if (Status status = read(offset, chunk.header); !status.ok()) return status.error();
    chunk.offset = offset + kChunkHeaderSize;
    chunk.size = load_le(chunk.header, 4, 4);
    if (chunk.is("fmt ")) {
      if (Status status = read_format(chunk, file_size, read, wav); !status.ok()) return status.error();
      have_format = true;
    } else if (chunk.is("data")) {
      if (!have_format) return base::error(ErrorCode::corrupt, "its audio comes before its \"fmt \" chunk");
      if (Status status = read_data(chunk, file_size, wav); !status.ok()) return status.error();
      if (Status status = check_no_more_audio(chunk, file_size, read); !status.ok()) return status.error();
      return wav;
    }
    offset = end_of(chunk);
  }
  return base::error(ErrorCode::corrupt, "more than ", kMaxChunks, " chunks and no audio among them");
}

Status decode_values(SampleEncoding encoding, std::span<const std::byte> bytes, std::span<float> out) {
  const std::size_t size = value_size(encoding);
  STAGEWIRE_CHECK(bytes.size() == out.size() * size, "as many values as the bytes hold");
  const float scale = std::ldexp(1.0F, 1 - 8 * static_cast<int>(size));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::byte* value = bytes.data() + i * size;
    if (encoding != SampleEncoding::float32) {
      out[i] = static_cast<float>(load_signed(value, size)) * scale;
      continue;
    }
    const float stored = std::bit_cast<float>(load_signed(value, size));
    if (!std::isfinite(stored)) return base::error(ErrorCode::corrupt, "a sample is not a finite number");
    out[i] = std::clamp(stored, -1.0F, 1.0F);
  }
  return {};
}

}  // namespace stagewire::pipeline::speech
