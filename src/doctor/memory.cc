#include "base/text.hpp"
#include "doctor/checks.hpp"
#include "memory/available_memory.hpp"
#include "memory/host_slab.hpp"

namespace stagewire::doctor {
namespace {

constexpr std::uint64_t kDefaultPool = 1ULL << 30;
constexpr std::uint64_t kHugePage = 2ULL << 20;
constexpr std::size_t kTrialSize = 8ULL << 20;

Finding available_finding(const memory::AvailableMemory& available) {
  Finding finding{.topic = "memory", .name = "available", .value = "unknown"};
  if (available.limit.empty()) return finding;
  finding.value = base::size_text(available.bytes) + ", " + available.limit;
  if (available.bytes < kDefaultPool) {
    finding.state = Finding::State::note;
    finding.advice =
        "a connector's pool takes 1 GiB unless memory_pool_size says otherwise, all of it at start";
    finding.command = "stagewire serve --set connectors.NAME.extra.memory_pool_size=256MiB ...";
  }
  return finding;
}

Finding pool_finding(const Result<std::string>& trial) {
  Finding finding{.topic = "memory", .name = "pool"};
  if (!trial) {
    finding.state = Finding::State::problem;
    finding.value = trial.error().to_string();
    finding.advice =
        "a pool is a sealed memfd: Linux 3.17 has it, a sandbox's system call filter may refuse it";
    finding.command = "allow memfd_create, ftruncate and fcntl(F_ADD_SEALS) in the sandbox";
    return finding;
  }
  finding.value = *trial;
  if (trial->starts_with("4 KiB")) {
    finding.state = Finding::State::note;
    finding.advice =
        "small pages take longer to fault in at start and to copy; reserve huge ones, or use Linux 6.1";
    finding.command = base::text("sudo sysctl vm.nr_hugepages=", kDefaultPool / kHugePage);
  }
  return finding;
}

}  // namespace

Result<std::string> try_pool() {
  const auto slab = memory::HostSlab::create(kTrialSize, {.name = "stagewire-doctor"});
  if (!slab) return slab.error();
  return (*slab)->page_kind();
}

std::vector<Finding> check_memory(const std::string& root, const Result<std::string>& trial) {
  return {available_finding(memory::available_memory(root)), pool_finding(trial)};
}

}  // namespace stagewire::doctor
