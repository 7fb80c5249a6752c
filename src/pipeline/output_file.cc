#include "pipeline/output_file.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "base/text.hpp"

namespace stagewire::pipeline {
namespace {

constexpr mode_t kMode = 0666;  // less what the umask takes away

std::string directory_of(const std::string& path) {
  const auto parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

/// A name in the same directory that nobody else has.
std::string hidden_name(const std::string& path) {
  std::uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number)
    number = static_cast<std::uint64_t>(::getpid());
  const std::string name =
      base::text(".", std::filesystem::path(path).filename().string(), ".", number, ".part");
  return (std::filesystem::path(directory_of(path)) / name).string();
}

Error write_error(const std::string& path, int error_number) {
  const ErrorCode code = error_number == ENOENT || error_number == ENOTDIR ? ErrorCode::not_found
                         : error_number == EACCES || error_number == EPERM || error_number == EROFS
                             ? ErrorCode::permission
                             : ErrorCode::failed;
  return base::error(code, "cannot write ", path, ": directory ", directory_of(path), ": ",
                     base::errno_text(error_number));
}

}  // namespace

Result<OutputFile> OutputFile::create(const std::string& path) {
  OutputFile output(path);
  if (Status status = output.check_target(); !status.ok()) return status.error();
  output.file_.reset(::open(directory_of(path).c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, kMode));
  if (output.file_) return output;
  if (errno != EOPNOTSUPP && errno != EISDIR) return write_error(path, errno);
  if (Status status = output.open_named(); !status.ok()) return status.error();
  return output;
}

Result<OutputFile> OutputFile::create_named(const std::string& path) {
  OutputFile output(path);
  if (Status status = output.check_target(); !status.ok()) return status.error();
  if (Status status = output.open_named(); !status.ok()) return status.error();
  return output;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      file_(std::move(other.file_)) {}

OutputFile::~OutputFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Status OutputFile::check_target() const {
  if (std::filesystem::path(path_).filename().empty()) {
    return base::error(ErrorCode::invalid_argument, "cannot write \"", path_, "\": it names no file");
  }
  struct stat info {};
  if (::stat(path_.c_str(), &info) != 0) return {};  // nothing is there: the directory decides
  if (!S_ISREG(info.st_mode)) {
    return base::error(ErrorCode::invalid_argument, "cannot write ", path_,
                       ": it exists and is no regular file");
  }
  if (::access(path_.c_str(), W_OK) != 0) {
    return base::error(ErrorCode::permission, "cannot write ", path_, ": ", base::errno_text(errno));
  }
  return {};
}

Status OutputFile::open_named() {
  temporary_ = hidden_name(path_);
  file_.reset(::open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kMode));
  if (file_) return {};
  temporary_.clear();
  return write_error(path_, errno);
}

Status OutputFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file_.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return base::system_error("writing " + path_, errno);
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

Status OutputFile::present() {
  if (::fdatasync(file_.get()) != 0) return base::system_error("writing " + path_ + " to the disk", errno);
  if (temporary_.empty()) {
    const std::string name = hidden_name(path_);
    const std::string itself = base::text("/proc/self/fd/", file_.get());
    if (::linkat(AT_FDCWD, itself.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      return write_error(path_, errno);
    }
    temporary_ = name;
  }
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) return write_error(path_, errno);
  temporary_.clear();
  file_.reset();
  return {};
}

}  // namespace stagewire::pipeline
