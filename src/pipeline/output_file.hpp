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
  /// Opens an empty file in the directory of `path`; where that is a symbolic link, of what it leads to,
  /// which need not be there yet: the link stays. The file has no name (O_TMPFILE), so that nothing is left
  /// of it however this process ends; on a file system that cannot do that it is a hidden file, as with
  /// create_named(). `not_found`: no such directory. `permission`: it may not be written, or what is there
  /// not replaced. `invalid_argument`: the path is no file's.
  static Result<OutputFile> create(const std::string& path);
  /// A hidden file beside `path`, removed by the destructor: left behind only when this process is killed.
  static Result<OutputFile> create_named(const std::string& path);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  int fd() const { return file_.get(); }
  const std::string& path() const { return path_; }  ///< as it was given
  /// Whether present() would replace the file of this name.
  bool would_replace(const std::string& file) const;
  /// Whether both would be presented under one name.
  bool is_same_place(const OutputFile& other) const;

  /// Appends, at this process's place in the file.
  Status write(std::string_view bytes);
  /// It is whole: writes it to the disk and puts it under its path, in place of what was there, in one step.
  Status present();

 private:
  explicit OutputFile(std::string path) : path_(std::move(path)) {}
  static Result<OutputFile> prepare(const std::string& path);
  Status open_directory();
  Status check_target() const;
  Status open_named();
  Error write_error(int error_number) const;

  std::string path_;
  std::string target_;        // what path_ leads to
  std::string name_;          // its last part
  base::UniqueFd directory_;  // the rest of it
  std::string temporary_;     // the file's name in there for the time being, empty = none
  base::UniqueFd file_;
};

}  // namespace stagewire::pipeline
