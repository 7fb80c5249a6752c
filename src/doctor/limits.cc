#include <sys/resource.h>

#include "base/text.hpp"
#include "doctor/checks.hpp"

namespace stagewire::doctor {
namespace {

// Each peer costs a handful of descriptors (control socket, Unix socket, ring, event), each region one.
constexpr std::uint64_t kFewFiles = 1024;
constexpr std::uint64_t kTooFewFiles = 64;

std::string limit_text(const std::optional<std::uint64_t>& limit, bool bytes) {
  if (!limit) return "unlimited";
  return bytes ? base::size_text(*limit) : base::text(*limit);
}

std::string both(const Limit& limit, bool bytes) {
  return limit_text(limit.soft, bytes) + " (hard limit " + limit_text(limit.hard, bytes) + ")";
}

Finding open_files_finding(const Limit& limit) {
  Finding finding{.topic = "limits", .name = "nofile", .value = both(limit, false)};
  if (!limit.soft || *limit.soft >= kFewFiles) return finding;
  finding.state = *limit.soft < kTooFewFiles ? Finding::State::problem : Finding::State::note;
  finding.advice = "each peer and each region takes file descriptors";
  const bool allowed = !limit.hard || *limit.hard >= kFewFiles;
  finding.command =
      allowed ? "ulimit -n 65536"
              : "echo '* - nofile 65536' | sudo tee /etc/security/limits.d/stagewire.conf, then log in again";
  if (allowed && limit.hard && *limit.hard < 65536) finding.command = base::text("ulimit -n ", *limit.hard);
  return finding;
}

Finding locked_memory_finding(const Limit& limit) {
  Finding finding{.topic = "limits", .name = "memlock", .value = both(limit, true)};
  if (!limit.soft) return finding;
  finding.state = Finding::State::note;
  finding.advice =
      "pipelines on one host do not need locked memory; registering a pool with a network card does";
  finding.command =
      limit.hard
          ? "echo '* - memlock unlimited' | sudo tee /etc/security/limits.d/stagewire.conf, then log in again"
          : "ulimit -l unlimited";
  return finding;
}

}  // namespace

Limit read_limit(int resource) {
  rlimit raw{};
  // Fails only for an unknown resource.
  if (getrlimit(static_cast<__rlimit_resource>(resource), &raw) != 0) return {};
  const auto value = [](rlim_t v) {
    return v == RLIM_INFINITY ? std::nullopt : std::optional<std::uint64_t>(v);
  };
  return {value(raw.rlim_cur), value(raw.rlim_max)};
}

std::vector<Finding> check_limits(const Limit& open_files, const Limit& locked_memory) {
  return {open_files_finding(open_files), locked_memory_finding(locked_memory)};
}

}  // namespace stagewire::doctor
