#include "pipeline/host_check.hpp"

#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>
#include <string>

#include "base/text.hpp"
#include "base/unique_fd.hpp"

namespace stagewire::pipeline {
namespace {

constexpr const char* kAnyPort = "9";

Status check_way_to(std::string host, int stage_id) {
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), kAnyPort, &hints, &found) != 0) return {};  // a name: the stage resolves it
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  const base::UniqueFd socket(::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  // Connecting a datagram socket looks for the way, and sends nothing.
  if (socket && ::connect(socket.get(), found->ai_addr, found->ai_addrlen) == 0) return {};
  return base::error(ErrorCode::unavailable, "there is no way to ", host, ", the host of stage ", stage_id,
                     ": ", base::errno_text(errno),
                     "; 'ip address' shows the addresses of this machine, 'ip link set lo up' brings up the "
                     "loopback interface");
}

}  // namespace

Status check_hosts(const std::vector<const StagePlan*>& stages) {
  for (const StagePlan* stage : stages) {
    if (!stage->connector || stage->connector->host == "auto") continue;
    if (Status status = check_way_to(stage->connector->host, stage->stage_id); !status.ok()) return status;
  }
  return {};
}

}  // namespace stagewire::pipeline
