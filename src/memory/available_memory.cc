#include "memory/available_memory.hpp"

#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

namespace stagewire::memory {
namespace {

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end != text.data() ? std::optional(value) : std::nullopt;
}

/// The number of a file that holds one; nullopt when there is no such file, or it says "max".
std::optional<std::uint64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  return file >> word ? parse_number(word) : std::nullopt;
}

/// The number behind `key` in a file of "key number" lines.
std::optional<std::uint64_t> read_keyed(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string name;
    std::string value;
    if (words >> name >> value && name == key) return parse_number(value);
  }
  return std::nullopt;
}

/// File names of one version of control groups.
struct CgroupVersion {
  const char* mount;
  const char* limit;
  const char* usage;
  const char* cache;  ///< key in memory.stat of what the kernel drops when memory gets short
};
constexpr CgroupVersion kVersion1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                     "memory.usage_in_bytes", "total_inactive_file"};
constexpr CgroupVersion kVersion2 = {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};

void consider(AvailableMemory& least, std::uint64_t bytes, std::string limit) {
  if (bytes < least.bytes) least = {bytes, std::move(limit)};
}

void consider_cgroup(AvailableMemory& least, const std::string& root, const CgroupVersion& version,
                     const std::string& group) {
  const std::string folder = version.mount + group;
  const auto limit = read_number(root + folder + "/" + version.limit);
  const auto usage = read_number(root + folder + "/" + version.usage);
  if (!limit || !usage) return;
  const std::uint64_t cache = read_keyed(root + folder + "/memory.stat", version.cache).value_or(0);
  const std::uint64_t held = *usage > cache ? *usage - cache : 0;
  consider(least, *limit > held ? *limit - held : 0, std::string(version.limit) + " of " + folder);
}

/// A group and all around it. In a container the path may be the host's and not exist here: its root does.
void consider_cgroups(AvailableMemory& least, const std::string& root, const CgroupVersion& version,
                      std::string group) {
  while (!group.empty() && group != "/") {
    consider_cgroup(least, root, version, group);
    group.resize(group.rfind('/'));
  }
  consider_cgroup(least, root, version, "");
}

}  // namespace

AvailableMemory available_memory(const std::string& root) {
  AvailableMemory least;
  if (const auto kib = read_keyed(root + "/proc/meminfo", "MemAvailable:")) {
    consider(least, *kib * 1024, "MemAvailable of this machine");
  }
  // Lines of /proc/self/cgroup: "0::/group" for version 2, "4:memory:/group" for version 1.
  std::ifstream groups(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {
    const auto first = line.find(':');
    const auto second = line.find(':', first == std::string::npos ? first : first + 1);
    if (second == std::string::npos || line.compare(second + 1, 1, "/") != 0) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (controllers.empty()) consider_cgroups(least, root, kVersion2, line.substr(second + 1));
    if (controllers == "memory") consider_cgroups(least, root, kVersion1, line.substr(second + 1));
  }
  return least;
}

std::uint64_t free_huge_pages(const std::string& root) {
  const std::string file = root + "/proc/meminfo";
  return read_keyed(file, "HugePages_Free:").value_or(0) * read_keyed(file, "Hugepagesize:").value_or(0) *
         1024;
}

}  // namespace stagewire::memory
