#include "pipeline/output_file.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "base/text.hpp"

namespace stagewire::pipeline {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kMode = 0666;  // less what the umask takes away
constexpr int kMostLinks = 40;  // as many as the kernel follows

std::string directory_of(const std::string& path) {
  const auto parent = fs::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

/// A name that nobody else has; short, so that it fits wherever the output's own does.
std::string hidden_name() {
  std::uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number)
    number = static_cast<std::uint64_t>(::getpid());
  return base::text(".stagewire-", number, ".part");
}

template <typename... Parts>
Error refused(const std::string& path, const Parts&... parts) {
  return base::error(ErrorCode::invalid_argument, "cannot write \"", path, "\": ", parts...);
}

/// What `path` leads to when its last part is a link, which may lead to nothing.
Result<std::string> follow_links(const std::string& path) {
  fs::path target = path;
  for (int i = 0; i < kMostLinks; ++i) {
    std::error_code failure;
    const fs::path link = fs::read_symlink(target, failure);
    if (failure) return target.string();  // it is no link
    target = link.is_absolute() ? link : target.parent_path() / link;
  }
  return refused(path, "the symbolic link leads in a circle");
}

std::optional<struct stat> look_at(int directory, const std::string& path) {
  struct stat info {};
  if (::fstatat(directory, path.c_str(), &info, 0) != 0) return std::nullopt;
  return info;
}

bool is_same_file(const std::optional<struct stat>& a, const std::optional<struct stat>& b) {
  return a && b && a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

}  // namespace

Result<OutputFile> OutputFile::create(const std::string& path) {
  Result<OutputFile> output = prepare(path);
  if (!output.ok()) return output;
  output->file_.reset(::openat(output->directory_.get(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, kMode));
  if (output->file_) return output;
  if (errno != EOPNOTSUPP && errno != EISDIR) return output->write_error(errno);
  if (Status status = output->open_named(); !status.ok()) return status.error();
  return output;
}

Result<OutputFile> OutputFile::create_named(const std::string& path) {
  Result<OutputFile> output = prepare(path);
  if (!output.ok()) return output;
  if (Status status = output->open_named(); !status.ok()) return status.error();
  return output;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      name_(std::move(other.name_)),
      directory_(std::move(other.directory_)),
      temporary_(std::exchange(other.temporary_, {})),
      file_(std::move(other.file_)) {}

OutputFile::~OutputFile() {
  if (!temporary_.empty()) ::unlinkat(directory_.get(), temporary_.c_str(), 0);
}

/// Everything but the file: its place, and whether it may stand there.
Result<OutputFile> OutputFile::prepare(const std::string& path) {
  OutputFile output(path);
  if (fs::path(path).filename().empty()) return refused(path, "it names no file");
  // Asked first: what stands behind the links of /proc/self/fd (/dev/stdout) cannot be found by its name.
  const auto there = look_at(AT_FDCWD, path);
  if (there && !S_ISREG(there->st_mode)) return refused(path, "it exists and is no regular file");
  Result<std::string> target = follow_links(path);
  if (!target.ok()) return target.error();
  output.target_ = std::move(*target);
  output.name_ = fs::path(output.target_).filename().string();
  if (output.name_.empty() || output.name_ == "." || output.name_ == "..")
    return refused(path, "it leads to ", output.target_, ", which names no file");
  if (Status status = output.open_directory(); !status.ok()) return status.error();
  if (there && !is_same_file(there, look_at(output.directory_.get(), output.name_)))
    return refused(path, "it leads to a file that has no name any more");
  if (Status status = output.check_target(); !status.ok()) return status.error();
  return output;
}

Status OutputFile::open_directory() {
  directory_.reset(::open(directory_of(target_).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!directory_) return write_error(errno);
  return {};
}

Status OutputFile::check_target() const {
  struct stat info {};
  if (::fstatat(directory_.get(), name_.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENAMETOOLONG) return refused(path_, "the name is longer than the file system takes");
    return {};  // nothing is there: the directory decides
  }
  if (!S_ISREG(info.st_mode)) return refused(path_, "it exists and is no regular file");
  if (::faccessat(directory_.get(), name_.c_str(), W_OK, AT_EACCESS) != 0) {
    return base::error(ErrorCode::permission, "cannot write ", path_, ": ", base::errno_text(errno));
  }
  struct stat around {};
  if (::fstat(directory_.get(), &around) != 0) return write_error(errno);
  const uid_t user = ::geteuid();
  const bool is_ours = user == 0 || info.st_uid == user || around.st_uid == user;
  if ((around.st_mode & S_ISVTX) != 0 && !is_ours) {
    return base::error(ErrorCode::permission, "cannot write ", path_, ": it is a file of user ", info.st_uid,
                       " in ", directory_of(target_),
                       ", where only its owner may replace it (the sticky bit): choose another name");
  }
  return {};
}

Status OutputFile::open_named() {
  temporary_ = hidden_name();
  file_.reset(::openat(directory_.get(), temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kMode));
  if (file_) return {};
  temporary_.clear();
  return write_error(errno);
}

Error OutputFile::write_error(int error_number) const {
  const ErrorCode code = error_number == ENOENT || error_number == ENOTDIR ? ErrorCode::not_found
                         : error_number == EACCES || error_number == EPERM || error_number == EROFS
                             ? ErrorCode::permission
                             : ErrorCode::failed;
  return base::error(code, "cannot write ", path_, ": directory ", directory_of(target_), ": ",
                     base::errno_text(error_number));
}

bool OutputFile::would_replace(const std::string& file) const {
  return is_same_file(look_at(directory_.get(), name_), look_at(AT_FDCWD, file));
}

bool OutputFile::is_same_place(const OutputFile& other) const {
  const int theirs = other.directory_.get();
  if (is_same_file(look_at(directory_.get(), name_), look_at(theirs, other.name_))) return true;
  return name_ == other.name_ && is_same_file(look_at(directory_.get(), "."), look_at(theirs, "."));
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
  const int directory = directory_.get();
  if (temporary_.empty()) {
    const std::string name = hidden_name();
    const std::string itself = base::text("/proc/self/fd/", file_.get());
    if (::linkat(AT_FDCWD, itself.c_str(), directory, name.c_str(), AT_SYMLINK_FOLLOW) != 0)
      return write_error(errno);
    temporary_ = name;
  }
  if (::renameat(directory, temporary_.c_str(), directory, name_.c_str()) != 0) return write_error(errno);
  temporary_.clear();
  file_.reset();
  return {};
}

}  // namespace stagewire::pipeline
