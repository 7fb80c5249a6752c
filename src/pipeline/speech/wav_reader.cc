#include "pipeline/speech/wav_reader.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/text.hpp"

namespace stagewire::pipeline::speech {
namespace {

Error open_error(const std::string& path, int error_number) {
  const ErrorCode code = error_number == ENOENT || error_number == ENOTDIR ? ErrorCode::not_found
                         : error_number == EACCES                          ? ErrorCode::permission
                                                                           : ErrorCode::failed;
  return base::error(code, "cannot read ", path, ": ", base::errno_text(error_number));
}

}  // namespace

Result<WavReader> WavReader::open(const std::string& path) {
  // Non-blocking: opening a pipe must not wait for somebody to write into it before it can be refused.
  base::UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return open_error(path, errno);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return open_error(path, errno);
  if (!S_ISREG(info.st_mode)) {
    return base::error(ErrorCode::invalid_argument, "cannot read ", path, ": it is not a regular file");
  }
  WavReader reader(path, std::move(file));
  auto format = parse_wav(
      static_cast<std::uint64_t>(info.st_size),
      [&reader](std::uint64_t offset, std::span<std::byte> out) { return reader.read_at(offset, out); });
  if (!format.ok()) return format.error().with_context(path);
  reader.format_ = *format;
  return reader;
}

Status WavReader::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t count = ::pread(file_.get(), out.data(), out.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return base::system_error("reading at byte " + std::to_string(offset), errno);
    if (count == 0) {
      return base::error(ErrorCode::corrupt, "the file became shorter while it was read: it ends at byte ",
                         offset);
    }
    offset += static_cast<std::uint64_t>(count);
    out = out.subspan(static_cast<std::size_t>(count));
  }
  return {};
}

Result<std::size_t> WavReader::read(std::span<float> out) {
  const auto channels = static_cast<std::size_t>(format_.audio.channels);
  const auto samples =
      static_cast<std::size_t>(std::min<std::uint64_t>(samples_left(), out.size() / channels));
  buffer_.resize(samples * format_.sample_size());
  if (Status status = read_at(format_.data_offset + position_ * format_.sample_size(), buffer_);
      !status.ok()) {
    return status.error().with_context(path_);
  }
  if (Status status = decode_values(format_.encoding, buffer_, out.first(samples * channels)); !status.ok()) {
    return status.error().with_context(path_);
  }
  position_ += samples;
  return samples;
}

}  // namespace stagewire::pipeline::speech
