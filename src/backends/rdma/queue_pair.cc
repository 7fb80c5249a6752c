#include "backends/rdma/queue_pair.hpp"

#include <algorithm>
#include <cerrno>

#include "base/check.hpp"
#include "base/text.hpp"

namespace stagewire::backends::rdma {
namespace {

// How long the peer may take to post a receive buffer. Frames are sent only when there is one, so this is
// never waited for; 12 is 0.64 ms (InfiniBand specification, table 45).
constexpr std::uint8_t kReceiverNotReadyTimer = 12;
// 7 would be for ever.
constexpr std::uint8_t kReceiverNotReadyRetries = 6;

}  // namespace

Result<std::unique_ptr<QueuePair>> QueuePair::create(std::shared_ptr<Port> port, const Depth& depth) {
  std::unique_ptr<QueuePair> made(new QueuePair(port, depth));
  const auto entries = static_cast<int>(depth.sends + depth.receives);
  if (!port->take_entries(entries)) {
    return base::error(ErrorCode::exhausted, port->name(), ": its completion queues of ",
                       port->limits().queue_entries, " entries have no room for ", entries, " more");
  }
  made->has_entries_ = true;
  ibv_qp_init_attr wanted{};
  wanted.send_cq = port->sent();
  wanted.recv_cq = port->received();
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap.max_send_wr = depth.sends;
  wanted.cap.max_recv_wr = depth.receives;
  wanted.cap.max_send_sge = depth.segments;
  wanted.cap.max_recv_sge = 1;
  made->pair_ = Handle<ibv_qp>(port->verbs().create_qp(port->domain(), &wanted), {&port->verbs()});
  if (!made->pair_) {
    return base::error(ErrorCode::failed, port->name(), ": creating a queue pair of ", depth.sends,
                       " sends, ", depth.receives, " receives and ", depth.segments,
                       " segments: ", base::errno_text(errno));
  }
  if (Status ok = made->to_init(); !ok) return ok.error();
  return made;
}

QueuePair::~QueuePair() {
  pair_.reset();
  if (has_entries_) port_->give_entries(static_cast<int>(depth_.sends + depth_.receives));
}

Status QueuePair::to_init() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = port_->number();
  // What a peer may really do is up to each region's registration.
  attributes.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  const int problem = port_->verbs().modify_qp(
      pair_.get(), &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  return problem == 0 ? Status() : base::system_error(port_->name() + ": initialising a queue pair", problem);
}

Status QueuePair::connect(const Remote& remote, std::uint32_t own_sequence) {
  const Settings& settings = port_->settings();
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = std::min(port_->mtu(), mtu_of(remote.rail.mtu));
  attributes.dest_qp_num = remote.number;
  attributes.rq_psn = remote.sequence & 0xffffff;
  attributes.max_dest_rd_atomic = port_->limits().reads_served;
  attributes.min_rnr_timer = kReceiverNotReadyTimer;
  attributes.ah_attr = port_->path_to(remote.rail);
  int problem =
      port_->verbs().modify_qp(pair_.get(), &attributes,
                               IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (problem != 0) {
    return base::error(ErrorCode::unavailable, port_->name(), " does not reach ", remote.rail.name, ": ",
                       base::errno_text(problem));
  }
  attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = own_sequence & 0xffffff;
  attributes.timeout = settings.ack_timeout;
  attributes.retry_cnt = settings.retry_count;
  attributes.rnr_retry = kReceiverNotReadyRetries;
  attributes.max_rd_atomic = static_cast<std::uint8_t>(
      std::clamp<std::uint32_t>(remote.reads_served, 1, port_->limits().reads_asked));
  problem = port_->verbs().modify_qp(pair_.get(), &attributes,
                                     IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                         IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
  return problem == 0 ? Status() : base::system_error(port_->name() + ": readying a queue pair", problem);
}

// Fails only for one that is in no state to send, which is what is wanted.
void QueuePair::stop() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  port_->verbs().modify_qp(pair_.get(), &attributes, IBV_QP_STATE);
}

Status QueuePair::post(ibv_send_wr* first, const Posting& posting) {
  ibv_send_wr* bad = nullptr;
  const int problem = ibv_post_send(pair_.get(), first, &bad);
  if (problem != 0) return base::system_error(port_->name() + ": posting to a queue pair", problem);
  used_ += posting.work_requests;
  postings_[(first_posting_ + posting_count_++) % postings_.size()] = posting;
  return {};
}

Status QueuePair::post_receive(ibv_recv_wr* request) {
  ibv_recv_wr* bad = nullptr;
  const int problem = ibv_post_recv(pair_.get(), request, &bad);
  return problem == 0 ? Status()
                      : base::system_error(port_->name() + ": posting a receive to a queue pair", problem);
}

QueuePair::Posting QueuePair::take_completed() {
  STAGEWIRE_CHECK(posting_count_ > 0, "a queue pair completes only what was posted to it");
  const Posting posting = postings_[first_posting_];
  first_posting_ = (first_posting_ + 1) % postings_.size();
  --posting_count_;
  used_ -= posting.work_requests;
  return posting;
}

}  // namespace stagewire::backends::rdma
