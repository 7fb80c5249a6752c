#include "deploy/cpu_file.hpp"

#include <filesystem>
#include <system_error>

namespace stagewire::deploy {

std::string cpu_file_beside(const std::string& file) {
  const std::filesystem::path path(file);
  std::string stem = path.stem().string();
  while (!stem.empty()) {
    const auto candidate = path.parent_path() / (stem + "_cpu.yaml");
    std::error_code ignored;  // what cannot be looked at is not there
    if (candidate != path && std::filesystem::is_regular_file(candidate, ignored)) return candidate.string();
    const auto underscore = stem.rfind('_');
    stem.erase(underscore == std::string::npos ? 0 : underscore);
  }
  return "";
}

}  // namespace stagewire::deploy
