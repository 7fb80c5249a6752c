#include "backends/rdma/mori/pair.hpp"

#include <algorithm>
#include <cstring>

#include "base/text.hpp"

namespace stagewire::backends::rdma::mori {
namespace {

// As many as our device asks for: what theirs serves is not said.
constexpr std::uint32_t kReadsUnknown = 255;
constexpr std::uint32_t kLargestMtu = 4096;

}  // namespace

Result<std::unique_ptr<Pair>> Pair::create(const std::shared_ptr<Port>& port, std::uint32_t sends) {
  std::unique_ptr<Pair> pair(new Pair(port));
  if (Status ok = pair->set_up(sends); !ok) return ok.error();
  return pair;
}

Pair::~Pair() {
  queue_.reset();
}

Status Pair::set_up(std::uint32_t sends) {
  constexpr std::size_t kSize = (kReceives + kNotifications) * kNotificationSize;
  slots_ = std::make_unique<std::byte[]>(kSize);
  auto region = port_->register_memory(slots_.get(), kSize, IBV_ACCESS_LOCAL_WRITE);
  if (!region) return region.error();
  region_ = std::move(*region);
  const PortLimits& limits = port_->limits();
  const auto most = static_cast<std::uint32_t>(std::max(1, limits.work_requests));
  auto queue = QueuePair::create(port_, {.sends = std::min(sends, most),
                                         .receives = std::min(kReceives, most),
                                         .segments = Transfers::segments_of(limits)});
  if (!queue) return queue.error();
  queue_ = std::move(*queue);
  for (std::uint32_t i = 0; i < std::min(kReceives, most); ++i) {
    if (Status ok = post_receive(i); !ok) return ok;
  }
  return {};
}

EndpointHandle Pair::handle() const {
  const Rail rail = port_->rail();
  EndpointHandle handle;
  handle.number = queue_->number();
  handle.port = port_->number();
  handle.lid = rail.lid;
  std::transform(rail.gid.begin(), rail.gid.end(), handle.gid.begin(),
                 [](std::uint8_t byte) { return std::byte{byte}; });
  return handle;
}

Status Pair::connect(const EndpointHandle& peer) {
  QueuePair::Remote remote;
  remote.rail.name = base::text("queue pair ", peer.number, " of an engine of MORI-IO's");
  remote.rail.ethernet = port_->ethernet();
  remote.rail.gid.assign(16, 0);
  // On InfiniBand the peer is reached by its LID, and what it says of a GID is not initialised.
  if (port_->ethernet()) {
    std::transform(peer.gid.begin(), peer.gid.end(), remote.rail.gid.begin(),
                   [](std::byte byte) { return std::to_integer<std::uint8_t>(byte); });
  }
  remote.rail.lid = peer.lid;
  remote.rail.mtu = kLargestMtu;
  remote.number = peer.number;
  remote.sequence = peer.sequence;
  remote.reads_served = kReadsUnknown;
  return queue_->connect(remote, 0);
}

Status Pair::post_receive(std::uint32_t index) {
  ibv_sge segment{reinterpret_cast<std::uintptr_t>(receive_slot(index)), kNotificationSize, region_->lkey};
  ibv_recv_wr request{};
  request.wr_id = index;
  request.sg_list = &segment;
  request.num_sge = 1;
  return queue_->post_receive(&request);
}

Result<Notification> Pair::take(const ibv_wc& completion) {
  if (completion.wr_id >= kReceives) return base::error(ErrorCode::corrupt, "a receive that was not posted");
  const auto notification = decode_notification({receive_slot(completion.wr_id), completion.byte_len});
  const Status posted = post_receive(static_cast<std::uint32_t>(completion.wr_id));
  return posted ? notification : Result<Notification>(posted.error());
}

Status Pair::notify(Transfers::Serial transfer, const Notification& notification) {
  std::byte* const slot = send_slot(transfer % kNotifications);
  const auto bytes = encode(notification);
  std::copy(bytes.begin(), bytes.end(), slot);
  ibv_sge segment{reinterpret_cast<std::uintptr_t>(slot), kNotificationSize, region_->lkey};
  ibv_send_wr request{};
  request.wr_id = transfer;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  request.sg_list = &segment;
  request.num_sge = 1;
  return queue_->post(&request, {.work_requests = 1, .frames = 1, .transfer = transfer});
}

Status Pair::probe() {
  ibv_send_wr request{};
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = IBV_SEND_SIGNALED;
  return queue_->post(&request, {.work_requests = 1});
}

}  // namespace stagewire::backends::rdma::mori
