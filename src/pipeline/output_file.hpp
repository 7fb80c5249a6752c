// A file that appears under its name only when it is whole. Until then what was there before stays there.
#pragma once

#include <string>
#include <string_view>

#include "base/unique_fd.hpp"
#include "stagewire/result.hpp"

namespace stagewire::pipeline {

/// Move-only, one thread at a time. Written through fd(), also by another process.
class OutputFile {
 public:
  /// Opens an empty file in the directory of `path`. It has no name (O_TMPFILE), so that nothing is left of
  /// it however this process ends; on a file system that cannot do that it is a hidden file, as with
  /// create_named(). `not_found`: no such directory. `permission`: it may not be written. `invalid_argument`:
  /// the path is no file's.
  static Result<OutputFile> create(const std::string& path);
  /// A hidden file beside `path`, removed by the destructor: left behind only when this process is killed.
  static Result<OutputFile> create_named(const std::string& path);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  int fd() const { return file_.get(); }
  const std::string& path() const { return path_; }

  /// Appends, at this process's place in the file.
  Status write(std::string_view bytes);
  /// It is whole: writes it to the disk and puts it under its path, in place of what was there, in one step.
  Status present();

 private:
  explicit OutputFile(std::string path) : path_(std::move(path)) {}
  Status check_target() const;
  Status open_named();

  std::string path_;
  std::string temporary_;  // its name for the time being, empty = none
  base::UniqueFd file_;
};

}  // namespace stagewire::pipeline
