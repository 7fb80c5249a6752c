#include "backends/rdma/rdma_endpoint.hpp"

#include "base/text.hpp"

namespace stagewire::backends::rdma {

Result<std::unique_ptr<RemoteRegion>> RdmaEndpoint::import(std::span<const std::byte> remote_key) {
  auto import = link_->import(remote_key);
  if (!import) return import.error();
  return std::unique_ptr<RemoteRegion>(std::make_unique<RdmaRemoteRegion>(std::move(*import), link_.get()));
}

Result<Posted> RdmaEndpoint::post(const WorkRequest& request) {
  const auto* remote = static_cast<const RdmaRemoteRegion*>(request.remote);
  if (request.local == nullptr || remote == nullptr || remote->link() != link_.get()) {
    return base::error(ErrorCode::invalid_argument, "request ", request.id,
                       " names no region of ours, or one that was imported over another endpoint");
  }
  return link_->post(request, remote->import());
}

}  // namespace stagewire::backends::rdma
