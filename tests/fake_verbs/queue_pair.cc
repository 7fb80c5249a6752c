// Queue pairs: made, brought from state to state, filled, destroyed.
#include <algorithm>
#include <cerrno>

#include "fake_verbs/export.hpp"
#include "fake_verbs/world.hpp"

namespace stagewire::fake_verbs {
namespace {

constexpr int kToInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
constexpr int kReliableToReceive = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kReliableToSend = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;

bool allowed(const QueuePair& pair, ibv_qp_state to, int mask) {
  const bool reliable = pair.qp_type == IBV_QPT_RC;
  switch (to) {
    case IBV_QPS_INIT:
      return pair.state == IBV_QPS_RESET &&
             mask == (kToInit | (reliable ? IBV_QP_ACCESS_FLAGS : IBV_QP_QKEY));
    case IBV_QPS_RTR:
      return pair.state == IBV_QPS_INIT && mask == (reliable ? kReliableToReceive : IBV_QP_STATE);
    case IBV_QPS_RTS:
      return pair.state == IBV_QPS_RTR && mask == (reliable ? kReliableToSend : IBV_QP_STATE | IBV_QP_SQ_PSN);
    case IBV_QPS_ERR:
    case IBV_QPS_RESET:
      return mask == IBV_QP_STATE;
    default:
      return false;
  }
}

void take(ibv_qp_attr& into, const ibv_qp_attr& from, ibv_qp_state to) {
  switch (to) {
    case IBV_QPS_INIT:
      into.qp_access_flags = from.qp_access_flags;
      into.qkey = from.qkey;
      break;
    case IBV_QPS_RTR:
      into.dest_qp_num = from.dest_qp_num;
      into.rq_psn = from.rq_psn;
      into.max_dest_rd_atomic = from.max_dest_rd_atomic;
      break;
    case IBV_QPS_RTS:
      into.sq_psn = from.sq_psn;
      into.timeout = from.timeout;
      into.retry_cnt = from.retry_cnt;
      into.rnr_retry = from.rnr_retry;
      into.max_rd_atomic = from.max_rd_atomic;
      break;
    default:
      break;
  }
}

// With the mutex; errno values.
int change(World& world, Lock& lock, QueuePair& pair, const ibv_qp_attr& attributes, int mask) {
  const ibv_qp_state to = attributes.qp_state;
  if (to == IBV_QPS_RTR && pair.qp_type == IBV_QPT_RC) {
    if (attributes.path_mtu > IBV_MTU_4096 || attributes.max_dest_rd_atomic > world.limits.reads)
      return EINVAL;
    pair.peer_device = world.device_of(attributes.ah_attr.grh.dgid);
    if (pair.peer_device == nullptr) return ETIMEDOUT;
  }
  if (to == IBV_QPS_RTS && pair.qp_type == IBV_QPT_RC && attributes.max_rd_atomic > world.limits.reads)
    return EINVAL;
  if (to == IBV_QPS_ERR) {
    pair.leaving = true;
    world.wait_until_idle(lock, pair.busy);
    pair.leaving = false;
    if (pair.state != IBV_QPS_ERR) world.to_error(pair);
    return 0;
  }
  if (!allowed(pair, to, mask)) return EINVAL;
  if (to == IBV_QPS_RESET) {
    pair.leaving = true;
    world.wait_until_idle(lock, pair.busy);
    pair.leaving = false;
    world.forget_work(pair);
  }
  take(pair.attributes, attributes, to);
  pair.state = to;
  world.something_changed();
  return 0;
}

Request request_of(const World& world, const QueuePair& pair, const ibv_send_wr& posted) {
  Request request;
  request.id = posted.wr_id;
  request.opcode = posted.opcode;
  request.signalled = (posted.send_flags & IBV_SEND_SIGNALED) != 0;
  request.urgent = (posted.send_flags & IBV_SEND_SOLICITED) != 0;
  request.has_inline = (posted.send_flags & IBV_SEND_INLINE) != 0;
  for (int i = 0; i < posted.num_sge; ++i) {
    const ibv_sge& segment = posted.sg_list[i];
    request.size += segment.length;
    if (!request.has_inline) {
      request.segments.push_back(segment);
      continue;
    }
    const auto* bytes = reinterpret_cast<const std::byte*>(static_cast<std::uintptr_t>(segment.addr));
    request.inline_bytes.insert(request.inline_bytes.end(), bytes, bytes + segment.length);
  }
  require(request.size <= world.limits.message_size, "a request of ", request.size,
          " bytes; the device takes ", world.limits.message_size);
  if (pair.qp_type == IBV_QPT_UD) {
    request.target = static_cast<const Address*>(posted.wr.ud.ah)->target;
    request.target_number = posted.wr.ud.remote_qpn;
    request.target_key = posted.wr.ud.remote_qkey;
    require(request.size <= 4096, "a datagram of ", request.size, " bytes");
  } else {
    request.remote_address = posted.wr.rdma.remote_addr;
    request.remote_key = posted.wr.rdma.rkey;
  }
  return request;
}

int post_one(World& world, QueuePair& pair, const ibv_send_wr& posted) {
  if (pair.state != IBV_QPS_RTS && pair.state != IBV_QPS_ERR) return EINVAL;
  require(pair.sends_used < pair.limits.max_send_wr, "more is posted to a send queue than its ",
          pair.limits.max_send_wr, " places");
  require(posted.num_sge >= 0 && static_cast<std::uint32_t>(posted.num_sge) <= pair.limits.max_send_sge,
          "a request of ", posted.num_sge, " segments on a queue pair of ", pair.limits.max_send_sge);
  require(posted.opcode == IBV_WR_SEND ||
              (pair.qp_type == IBV_QPT_RC &&
               (posted.opcode == IBV_WR_RDMA_READ || posted.opcode == IBV_WR_RDMA_WRITE)),
          "an operation that is not simulated: ", posted.opcode);
  Request request = request_of(world, pair, posted);
  if (request.has_inline) {
    require(posted.opcode != IBV_WR_RDMA_READ, "a read cannot be inline");
    require(request.size <= pair.limits.max_inline_data, request.size,
            " bytes inline on a queue pair that takes ", pair.limits.max_inline_data);
  }
  world.check_segments(pair.pd, request.segments, posted.opcode == IBV_WR_RDMA_READ);
  ++pair.sends_used;
  if (pair.state == IBV_QPS_ERR) {
    world.complete_send(pair, request, IBV_WC_WR_FLUSH_ERR);
    return 0;
  }
  pair.sends.push_back(std::move(request));
  world.make_ready(pair);
  return 0;
}

int receive_one(World& world, QueuePair& pair, const ibv_recv_wr& posted) {
  if (pair.state == IBV_QPS_RESET) return EINVAL;
  require(pair.receives_used < pair.limits.max_recv_wr, "more is posted to a receive queue than its ",
          pair.limits.max_recv_wr, " places");
  require(posted.num_sge >= 0 && static_cast<std::uint32_t>(posted.num_sge) <= pair.limits.max_recv_sge,
          "a receive of ", posted.num_sge, " segments on a queue pair of ", pair.limits.max_recv_sge);
  Receive receive{posted.wr_id, {posted.sg_list, posted.sg_list + posted.num_sge}};
  world.check_segments(pair.pd, receive.segments, true);
  ++pair.receives_used;
  if (pair.state == IBV_QPS_ERR) {
    world.complete_receive(pair, receive, IBV_WC_WR_FLUSH_ERR, 0);
    return 0;
  }
  pair.receives.push_back(std::move(receive));
  world.something_changed();  // somebody may wait for a place
  return 0;
}

}  // namespace

int post_send(ibv_qp* pair, ibv_send_wr* first, ibv_send_wr** bad) {
  World& world = World::get();
  Lock lock(world.mutex);
  auto& posted_to = *static_cast<QueuePair*>(pair);
  int problem = world.enter(lock, "post_send", &posted_to);
  for (ibv_send_wr* request = first; request != nullptr; request = request->next) {
    if (problem == 0) problem = post_one(world, posted_to, *request);
    if (problem == 0) continue;
    *bad = request;
    return problem;
  }
  return 0;
}

int post_receive(ibv_qp* pair, ibv_recv_wr* first, ibv_recv_wr** bad) {
  World& world = World::get();
  Lock lock(world.mutex);
  auto& posted_to = *static_cast<QueuePair*>(pair);
  int problem = world.enter(lock, "post_recv", &posted_to);
  for (ibv_recv_wr* receive = first; receive != nullptr; receive = receive->next) {
    if (problem == 0) problem = receive_one(world, posted_to, *receive);
    if (problem == 0) continue;
    *bad = receive;
    return problem;
  }
  return 0;
}

FAKE_VERBS ibv_qp* ibv_create_qp(ibv_pd* domain, ibv_qp_init_attr* wanted) {
  World& world = World::get();
  Lock lock(world.mutex);
  int problem = world.enter(lock, "create_qp");
  const auto most = static_cast<std::uint32_t>(world.limits.work_requests);
  const auto segments = static_cast<std::uint32_t>(world.limits.segments);
  const ibv_qp_cap& cap = wanted->cap;
  const bool possible = cap.max_send_wr <= most && cap.max_recv_wr <= most && cap.max_send_sge <= segments &&
                        cap.max_recv_sge <= segments && cap.max_inline_data <= world.limits.inline_size &&
                        (wanted->qp_type == IBV_QPT_RC || wanted->qp_type == IBV_QPT_UD);
  if (problem == 0 && !possible) problem = EINVAL;
  if (problem != 0) {
    errno = problem;
    return nullptr;
  }
  auto* pair = new QueuePair();
  pair->context = domain->context;
  pair->pd = domain;
  pair->send_cq = wanted->send_cq;
  pair->recv_cq = wanted->recv_cq;
  pair->qp_type = wanted->qp_type;
  pair->state = IBV_QPS_RESET;
  pair->limits = wanted->cap;
  pair->qp_num = world.next_pair++;
  world.pairs[pair->qp_num] = pair;
  ++static_cast<Domain*>(domain)->users;
  ++static_cast<CompletionQueue*>(wanted->send_cq)->users;
  ++static_cast<CompletionQueue*>(wanted->recv_cq)->users;
  ++world.live["queue_pair"];
  return pair;
}

FAKE_VERBS int ibv_modify_qp(ibv_qp* pair, ibv_qp_attr* attributes, int mask) {
  World& world = World::get();
  Lock lock(world.mutex);
  auto& modified = *static_cast<QueuePair*>(pair);
  const int problem = world.enter(lock, "modify_qp", &modified);
  return problem != 0 ? problem : change(world, lock, modified, *attributes, mask);
}

FAKE_VERBS int ibv_destroy_qp(ibv_qp* pair) {
  World& world = World::get();
  Lock lock(world.mutex);
  auto* destroyed = static_cast<QueuePair*>(pair);
  const auto known = world.pairs.find(destroyed->qp_num);
  require(known != world.pairs.end() && known->second == destroyed, "a queue pair is destroyed twice");
  require(destroyed->callers == 0, "a queue pair is destroyed while another thread uses it");
  world.enter(lock, "destroy_qp");
  destroyed->leaving = true;
  world.wait_until_idle(lock, destroyed->busy);
  std::erase(world.ready, destroyed);
  world.pairs.erase(destroyed->qp_num);
  --static_cast<Domain*>(destroyed->pd)->users;
  --static_cast<CompletionQueue*>(destroyed->send_cq)->users;
  --static_cast<CompletionQueue*>(destroyed->recv_cq)->users;
  --world.live["queue_pair"];
  world.something_changed();
  lock.unlock();
  delete destroyed;
  return 0;
}

}  // namespace stagewire::fake_verbs
