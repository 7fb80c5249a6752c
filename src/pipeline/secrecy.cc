#include "pipeline/secrecy.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>

#include "base/secret_key.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "control/host_address.hpp"

namespace stagewire::pipeline {
namespace {

constexpr std::size_t kLongestFile = 4096;
constexpr mode_t kOthers = S_IRWXG | S_IRWXO;
constexpr std::string_view kSpace = " \t\r\n";

/// An address that cannot be found is complained of by who binds it.
bool others_reach(const std::string& host) {
  if (host == "auto") {
    const auto chosen =
        control::choose_address(control::interface_addresses(), control::default_route_interface(), true);
    return chosen.ok() && !control::is_loopback(chosen->address);
  }
  const auto address = control::resolve_host(host);
  return address.ok() && !control::is_loopback(*address);
}

std::string first_key(const DeployPlan& plan) {
  for (const StagePlan& stage : plan.stages)
    if (stage.connector && !stage.connector->secret_key.empty()) return stage.connector->secret_key;
  return {};
}

void give_key(DeployPlan& plan, const std::string& key) {
  for (StagePlan& stage : plan.stages)
    if (stage.connector && stage.connector->secret_key.empty()) stage.connector->secret_key = key;
}

Status check_open(const DeployPlan& plan, const NodeOptions& node) {
  std::string who;
  if (others_reach(node.master_address)) who = "the master at " + node.master_address;
  for (const StagePlan& stage : plan.stages) {
    const bool is_here =
        std::find(node.stage_ids.begin(), node.stage_ids.end(), stage.stage_id) != node.stage_ids.end();
    if (!who.empty() || !is_here || !stage.connector || !others_reach(stage.connector->host)) continue;
    who = base::text("stage ", stage.stage_id, " (host: ", stage.connector->host, ")");
  }
  if (who.empty()) return {};
  return base::error(ErrorCode::permission, who,
                     " is open to other hosts, and there is no secret to keep strangers out: give every node "
                     "the same --secret-file FILE (openssl rand -hex 32 > FILE; chmod 600 FILE), or say "
                     "--insecure");
}

}  // namespace

Result<std::string> read_secret_file(const std::string& file) {
  const base::UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd)
    return base::error(ErrorCode::not_found, "cannot read the secret file ", file, ": ",
                       base::errno_text(errno));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return base::system_error("looking at the secret file " + file, errno);
  if (!S_ISREG(info.st_mode))
    return base::error(ErrorCode::invalid_argument, "the secret file ", file, " is no file");
  if ((info.st_mode & kOthers) != 0) {
    return base::error(ErrorCode::permission, "others than its owner may use the secret file ", file,
                       ": 'chmod 600 ", file, "', and make a new secret if they may have read it");
  }
  std::array<char, kLongestFile> bytes{};
  const ssize_t size = ::read(fd.get(), bytes.data(), bytes.size());
  if (size < 0) return base::system_error("reading the secret file " + file, errno);
  std::string_view text(bytes.data(), static_cast<std::size_t>(size));
  text = text.substr(std::min(text.find_first_not_of(kSpace), text.size()));
  text = text.substr(0, text.find_last_not_of(kSpace) + 1);
  auto key = base::z85_secret_key(text);
  if (!key.ok()) return key.error().with_context(file);
  return key;
}

Result<std::string> secure_nodes(DeployPlan& plan, const NodeOptions& node) {
  std::string key;
  if (!node.secret_file.empty()) {
    auto read = read_secret_file(node.secret_file);
    if (!read.ok()) return read.error();
    key = *std::move(read);
  } else {
    key = first_key(plan);
  }
  if (!key.empty()) {
    give_key(plan, key);
  } else if (!node.insecure) {
    if (Status status = check_open(plan, node); !status.ok()) return status.error();
  }
  return key;
}

Status secure_children(DeployPlan& plan) {
  const bool open = std::any_of(plan.stages.begin(), plan.stages.end(), [](const StagePlan& stage) {
    return stage.connector && others_reach(stage.connector->host);
  });
  if (!open || !first_key(plan).empty()) return {};
  std::array<unsigned char, 32> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return base::system_error("making a secret for the stages", errno);
  std::string key;
  for (const unsigned char byte : bytes) {
    std::array<char, 3> hex{};
    std::snprintf(hex.data(), hex.size(), "%02x", unsigned{byte});
    key += hex.data();
  }
  give_key(plan, key);
  return {};
}

}  // namespace stagewire::pipeline
