#include "pipeline/speech/wav_writer.hpp"

#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <limits>
#include <string_view>

#include "base/text.hpp"

namespace stagewire::pipeline::speech {
namespace {

static_assert(std::endian::native == std::endian::little, "samples are written as they lie in memory");

constexpr std::size_t kHeaderSize = 44;
constexpr std::uint64_t kMaxDataSize = std::numeric_limits<std::uint32_t>::max() - kHeaderSize;

/// Appends fields to a header of fixed size.
class HeaderBuilder {
 public:
  HeaderBuilder& tag(std::string_view name) { return raw(name.data(), name.size()); }
  HeaderBuilder& u16(std::uint16_t value) { return raw(&value, sizeof value); }
  HeaderBuilder& u32(std::uint32_t value) { return raw(&value, sizeof value); }
  const std::array<std::byte, kHeaderSize>& bytes() const { return bytes_; }

 private:
  HeaderBuilder& raw(const void* source, std::size_t size) {
    std::memcpy(bytes_.data() + used_, source, size);
    used_ += size;
    return *this;
  }
  std::array<std::byte, kHeaderSize> bytes_{};
  std::size_t used_ = 0;
};

Status write_at(int file, std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return base::system_error("writing the output at byte " + std::to_string(offset), errno);
    offset += static_cast<std::uint64_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return {};
}

}  // namespace

Result<WavWriter> WavWriter::begin(int file, const AudioFormat& format) {
  if (Status status = check_format(format); !status.ok()) return status.error();
  WavWriter writer(file, format);
  if (Status status = writer.write_header(); !status.ok()) return status.error();
  return writer;
}

Status WavWriter::write_header() {
  const auto data_size = static_cast<std::uint32_t>(data_size_);
  const auto rate = static_cast<std::uint32_t>(format_.sample_rate);
  HeaderBuilder header;
  header.tag("RIFF").u32(data_size + static_cast<std::uint32_t>(kHeaderSize - 8)).tag("WAVE");
  header.tag("fmt ").u32(16).u16(1).u16(static_cast<std::uint16_t>(format_.channels)).u32(rate);
  header.u32(rate * static_cast<std::uint32_t>(sample_size()))
      .u16(static_cast<std::uint16_t>(sample_size()))
      .u16(16);
  header.tag("data").u32(data_size);
  return write_at(file_, 0, header.bytes());
}

Status WavWriter::append(std::span<const std::int16_t> values) {
  const auto bytes = std::as_bytes(values);
  if (bytes.size() > kMaxDataSize - data_size_) {
    return base::error(ErrorCode::too_large, "the output would have ", data_size_ + bytes.size(),
                       " bytes of audio, a WAV file holds ", kMaxDataSize);
  }
  if (Status status = write_at(file_, kHeaderSize + data_size_, bytes); !status.ok()) return status;
  data_size_ += bytes.size();
  return {};
}

Status WavWriter::finish() {
  return write_header();
}

}  // namespace stagewire::pipeline::speech
