#include <algorithm>
#include <fstream>

#include "base/text.hpp"
#include "doctor/checks.hpp"

namespace stagewire::doctor {
namespace {

constexpr std::uint64_t kDefaultPool = 1ULL << 30;

std::string first_line(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

/// A field of /proc/meminfo, in the unit that stands there (KiB or pages).
std::optional<std::uint64_t> meminfo(const std::filesystem::path& root, std::string_view field) {
  std::ifstream in(root / "proc/meminfo");
  std::string name;
  std::uint64_t value = 0;
  std::string rest;
  while (in >> name >> value) {
    std::getline(in, rest);
    if (name == std::string(field) + ":") return value;
  }
  return std::nullopt;
}

/// "always [advise] never" -> "advise".
std::string chosen_word(const std::string& line) {
  const std::size_t begin = line.find('[');
  const std::size_t end = line.find(']');
  return begin == std::string::npos || end == std::string::npos ? ""
                                                                : line.substr(begin + 1, end - begin - 1);
}

Finding available_finding(const std::filesystem::path& root) {
  Finding finding{.topic = "memory", .name = "available"};
  const auto kib = meminfo(root, "MemAvailable");
  if (!kib) {
    finding.value = "unknown (no MemAvailable in /proc/meminfo)";
    return finding;
  }
  std::uint64_t available = *kib * 1024;
  const std::string group = first_line(root / "sys/fs/cgroup/memory.max");
  if (!group.empty() && group.find_first_not_of("0123456789") == std::string::npos && group.size() < 19) {
    available = std::min<std::uint64_t>(available, std::stoull(group));
  }
  finding.value = base::size_text(available);
  if (available < kDefaultPool) {
    finding.state = Finding::State::note;
    finding.advice =
        "a connector's pool takes 1 GiB unless memory_pool_size says otherwise, and is taken at once";
    finding.command = "stagewire serve --set connectors.NAME.extra.memory_pool_size=256MiB ...";
  }
  return finding;
}

Finding transparent_huge_pages_finding(const std::filesystem::path& root) {
  Finding finding{.topic = "memory", .name = "thp_shmem"};
  const std::string chosen =
      chosen_word(first_line(root / "sys/kernel/mm/transparent_hugepage/shmem_enabled"));
  finding.value = chosen.empty() ? "this kernel has none" : chosen;
  if (chosen == "never" || chosen == "deny") {
    finding.state = Finding::State::note;
    finding.advice =
        "the pool gets 4 KiB pages: slower to fault in at start, and slower to copy when it is large";
    finding.command = "echo advise | sudo tee /sys/kernel/mm/transparent_hugepage/shmem_enabled";
  }
  return finding;
}

Finding huge_pages_finding(const std::filesystem::path& root) {
  Finding finding{.topic = "memory", .name = "huge_pages"};
  const std::uint64_t size = meminfo(root, "Hugepagesize").value_or(0) * 1024;
  const std::uint64_t free = meminfo(root, "HugePages_Free").value_or(0);
  finding.value = base::text(free, " free");
  if (size != 0) finding.value += " of " + base::size_text(size) + " each";
  if (size != 0 && free * size < kDefaultPool) {
    finding.state = Finding::State::note;
    finding.advice =
        "a pool uses reserved huge pages when enough of them are free, these would do for one of 1 GiB";
    finding.command = base::text("sudo sysctl vm.nr_hugepages=", kDefaultPool / size);
  }
  return finding;
}

}  // namespace

std::vector<Finding> check_memory(const std::filesystem::path& root) {
  return {available_finding(root), transparent_huge_pages_finding(root), huge_pages_finding(root)};
}

}  // namespace stagewire::doctor
