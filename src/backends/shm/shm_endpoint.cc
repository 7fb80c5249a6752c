#include "backends/shm/shm_endpoint.hpp"

#include "base/text.hpp"

namespace stagewire::backends::shm {

Result<std::unique_ptr<RemoteRegion>> ShmEndpoint::import(std::span<const std::byte> remote_key) {
  auto import = outbox_->import(remote_key);
  if (!import) return import.error();
  return std::unique_ptr<RemoteRegion>(std::make_unique<ShmRemoteRegion>(std::move(*import)));
}

Result<Posted> ShmEndpoint::post(const WorkRequest& request) {
  const auto* remote = static_cast<const ShmRemoteRegion*>(request.remote);
  if (remote == nullptr || request.local == nullptr) {
    return base::error(ErrorCode::invalid_argument, "request ", request.id,
                       " names no local or no remote region");
  }
  return outbox_->post(request, remote->import());
}

}  // namespace stagewire::backends::shm
