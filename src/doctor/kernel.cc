#include <fcntl.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <sstream>

#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "doctor/checks.hpp"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace stagewire::doctor {
namespace {

constexpr std::size_t kTrialSize = 64 * 1024;

Finding kernel_finding() {
  utsname name{};
  uname(&name);
  return {.topic = "kernel",
          .name = "release",
          .value = base::text(name.sysname, ' ', name.release, ' ', name.machine)};
}

/// A sealed memfd is what a pool is made of: without it no other process can reach it.
Finding memfd_finding() {
  Finding finding{.topic = "kernel", .name = "memfd_seals", .value = "work"};
  const base::UniqueFd fd(memfd_create("stagewire-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const bool works = fd && ftruncate(fd.get(), kTrialSize) == 0 &&
                     fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
  if (!works) {
    finding.state = Finding::State::problem;
    finding.value = "do not work: " + base::errno_text(errno);
    finding.advice = "pools are sealed memfd files; a sandbox's system call filter may refuse them";
    finding.command = "allow memfd_create and fcntl(F_ADD_SEALS) in the sandbox, or use Linux 3.17 or later";
  }
  return finding;
}

Finding populate_finding() {
  Finding finding{.topic = "kernel", .name = "madv_populate", .value = "works"};
  void* trial = mmap(nullptr, kTrialSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const bool works = trial != MAP_FAILED && madvise(trial, kTrialSize, MADV_POPULATE_WRITE) == 0;
  if (!works) {
    finding.state = Finding::State::note;
    finding.value = "does not work: " + base::errno_text(errno);
    finding.advice =
        "pools are faulted in page by page at start, which takes longer; Linux 5.14 or later has it";
  }
  if (trial != MAP_FAILED) munmap(trial, kTrialSize);
  return finding;
}

}  // namespace

std::vector<Finding> check_kernel() {
  return {kernel_finding(), memfd_finding(), populate_finding()};
}

std::vector<Finding> check_cpu(const std::filesystem::path& root) {
  std::ifstream in(root / "proc/cpuinfo");
  std::string line;
  std::string model = "unknown";
  std::size_t cores = 0;
  std::string found;
  while (std::getline(in, line)) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string value = colon + 2 < line.size() ? line.substr(colon + 2) : "";
    if (line.starts_with("processor")) ++cores;
    if (line.starts_with("model name")) model = value;
    if (!line.starts_with("flags") || !found.empty()) continue;
    std::istringstream words(value);
    for (std::string word; words >> word;) {
      constexpr std::array kOfInterest{"sse2", "avx2", "avx512f", "erms", "constant_tsc"};
      if (std::find(kOfInterest.begin(), kOfInterest.end(), word) != kOfInterest.end()) found += ' ' + word;
    }
  }
  Finding processor{.topic = "cpu", .name = "processor", .value = base::text(cores, " x ", model)};
  if (cores == 1) {
    processor.state = Finding::State::note;
    processor.advice = "with one core both ends of an edge take turns: wait: block suits it better than spin";
  }
  return {processor,
          {.topic = "cpu", .name = "flags", .value = found.empty() ? "none of interest" : found.substr(1)}};
}

}  // namespace stagewire::doctor
