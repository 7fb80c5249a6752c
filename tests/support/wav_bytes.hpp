// WAV files for tests, good and bad, put together from their fields.
#pragma once

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace stagewire::test {

inline std::string little_endian(std::uint64_t value, int size) {
  std::string bytes;
  for (int i = 0; i < size; ++i) bytes.push_back(static_cast<char>(value >> (8 * i) & 0xFF));
  return bytes;
}

struct WavFields {
  unsigned format = 1;  ///< 1 PCM, 3 float
  unsigned channels = 1;
  unsigned sample_rate = 16'000;
  unsigned bits = 16;
};

/// A chunk with its header; `size` lies when it is given.
inline std::string riff_chunk(std::string_view tag, const std::string& contents, std::int64_t size = -1) {
  const auto said = size < 0 ? contents.size() : static_cast<std::size_t>(size);
  std::string bytes = std::string(tag) + little_endian(said, 4) + contents;
  if (contents.size() % 2 != 0) bytes.push_back('\0');
  return bytes;
}

inline std::string format_chunk(const WavFields& fields) {
  const unsigned sample_size = fields.channels * fields.bits / 8;
  return riff_chunk("fmt ", little_endian(fields.format, 2) + little_endian(fields.channels, 2) +
                                little_endian(fields.sample_rate, 4) +
                                little_endian(std::uint64_t{fields.sample_rate} * sample_size, 4) +
                                little_endian(sample_size, 2) + little_endian(fields.bits, 2));
}

inline std::string riff_file(const std::string& chunks) {
  return "RIFF" + little_endian(chunks.size() + 4, 4) + "WAVE" + chunks;
}

inline std::string wav_file(const WavFields& fields, const std::string& audio) {
  return riff_file(format_chunk(fields) + riff_chunk("data", audio));
}

inline std::string pcm16_bytes(const std::vector<std::int16_t>& values) {
  std::string bytes;
  for (const std::int16_t value : values) bytes += little_endian(static_cast<std::uint16_t>(value), 2);
  return bytes;
}

inline void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string read_file(const std::string& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return std::move(bytes).str();
}

}  // namespace stagewire::test
