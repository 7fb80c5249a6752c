// The library's thread: carries out what was posted, one request after the other.
#include <algorithm>

#include "fake_verbs/world.hpp"

namespace stagewire::fake_verbs {
namespace {

constexpr std::size_t kGlobalHeader = 40;  // in front of every datagram

std::byte* at(std::uint64_t address) {
  return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(address));
}

// From the ranges of one list to those of another, which are at least as long.
void copy(const std::vector<ibv_sge>& from, const std::vector<ibv_sge>& to) {
  std::size_t place = 0;
  std::uint32_t used = 0;
  for (const ibv_sge& range : from) {
    for (std::uint32_t done = 0; done < range.length;) {
      while (used == to[place].length) {
        ++place;
        used = 0;
      }
      const std::uint32_t size = std::min(range.length - done, to[place].length - used);
      std::memcpy(at(to[place].addr + used), at(range.addr + done), size);
      done += size;
      used += size;
    }
  }
}

std::uint64_t total(const std::vector<ibv_sge>& segments) {
  std::uint64_t size = 0;
  for (const ibv_sge& segment : segments) size += segment.length;
  return size;
}

// What it waits for an acknowledgement, over all retries (InfiniBand specification, 9.7.6.1.3).
Clock::duration patience_of(const QueuePair& pair) {
  const auto once = std::chrono::nanoseconds(4096LL << pair.attributes.timeout);
  return once * (pair.attributes.retry_cnt + 1);
}

// 12 is 0.64 ms; tests need no other.
constexpr std::chrono::microseconds kReceiverNotReady{640};

std::vector<ibv_sge> source_of(const Request& request) {
  if (!request.has_inline) return request.segments;
  return {{reinterpret_cast<std::uintptr_t>(request.inline_bytes.data()),
           static_cast<std::uint32_t>(request.inline_bytes.size()), 0}};
}

}  // namespace

void World::start_thread() {
  stopping_ = false;
  thread_ = std::thread([this] { run(); });
}

void World::stop_thread(Lock& lock) {
  stopping_ = true;
  changed.notify_all();
  std::thread ended = std::move(thread_);
  lock.unlock();
  ended.join();
  lock.lock();
}

void World::make_ready(QueuePair& pair) {
  if (pair.ready || pair.sends.empty()) return;
  pair.ready = true;
  ready.push_back(&pair);
  changed.notify_all();
}

void World::something_changed() {
  for (const auto& [number, pair] : pairs) {
    if (pair->gives_up) make_ready(*pair);
  }
  changed.notify_all();
}

std::optional<Clock::time_point> World::next_deadline() const {
  std::optional<Clock::time_point> next;
  for (const auto& [number, pair] : pairs) {
    if (pair->gives_up && !pair->sends.empty() && (!next || *pair->gives_up < *next)) next = pair->gives_up;
  }
  return next;
}

void World::run() {
  Lock lock(mutex);
  while (!stopping_) {
    if (ready.empty()) {
      const auto deadline = next_deadline();
      if (!deadline) {
        changed.wait(lock);
      } else if (*deadline <= Clock::now() ||
                 changed.wait_until(lock, *deadline) == std::cv_status::timeout) {
        something_changed();
      }
      continue;
    }
    QueuePair& pair = *ready.front();
    ready.pop_front();
    pair.ready = false;
    if (!pair.sends.empty()) step(pair, lock);
  }
}

void World::step(QueuePair& pair, Lock& lock) {
  if (pair.qp_type == IBV_QPT_UD) {
    step_datagram(pair);
  } else if (!paused) {
    step_reliable(pair, lock);
  }
}

void World::finish(QueuePair& pair, ibv_wc_status status, std::uint32_t vendor_error) {
  const Request request = std::move(pair.sends.front());
  pair.sends.pop_front();
  pair.gives_up.reset();
  if (pair.qp_type != IBV_QPT_UD) ++of(pair.context).on->requests_done;
  complete_send(pair, request, status, vendor_error);
  if (status != IBV_WC_SUCCESS) to_error(pair);
  make_ready(pair);
}

// --- Datagrams

void World::step_datagram(QueuePair& pair) {
  const Request& request = pair.sends.front();
  const Device& own = *of(pair.context).on;
  const auto found = pairs.find(request.target_number);
  QueuePair* const target = found == pairs.end() ? nullptr : found->second;
  check_segments(pair.pd, request.segments, false);
  const bool arrives =
      target != nullptr && target->qp_type == IBV_QPT_UD && of(target->context).on == request.target &&
      own.network && request.target->network && target->attributes.qkey == request.target_key &&
      (target->state == IBV_QPS_RTR || target->state == IBV_QPS_RTS) && !target->receives.empty();
  if (arrives && total(target->receives.front().segments) >= kGlobalHeader + request.size) {
    const Receive receive = target->receives.front();
    target->receives.pop_front();
    check_segments(target->pd, receive.segments, true);
    std::byte header[kGlobalHeader] = {};
    std::vector<ibv_sge> source = source_of(request);
    source.insert(source.begin(), {reinterpret_cast<std::uintptr_t>(header), kGlobalHeader, 0});
    copy(source, receive.segments);
    complete_receive(*target, receive, IBV_WC_SUCCESS, kGlobalHeader + request.size, request.urgent,
                     pair.qp_num);
  }
  finish(pair, IBV_WC_SUCCESS);
}

// --- Reliable connections

// The one that answers; nullptr when nobody does.
QueuePair* World::peer_of(const QueuePair& pair) {
  const auto found = pairs.find(pair.attributes.dest_qp_num);
  if (found == pairs.end() || found->second->qp_type != IBV_QPT_RC) return nullptr;
  QueuePair& peer = *found->second;
  const Device& own = *of(pair.context).on;
  const Device& other = *of(peer.context).on;
  const bool connected = !peer.leaving && (peer.state == IBV_QPS_RTR || peer.state == IBV_QPS_RTS) &&
                         peer.attributes.dest_qp_num == pair.qp_num &&
                         peer.attributes.rq_psn == pair.attributes.sq_psn && pair.peer_device == &other &&
                         peer.peer_device == &own;
  return connected && own.network && other.network ? &peer : nullptr;
}

void World::wait_for_peer(QueuePair& pair, Clock::duration patience, ibv_wc_status then) {
  const auto now = Clock::now();
  if (!pair.gives_up) pair.gives_up = now + patience;
  if (now >= *pair.gives_up) finish(pair, then);
}

void World::step_reliable(QueuePair& pair, Lock& lock) {
  if (pair.state != IBV_QPS_RTS || pair.leaving) return;
  if (fail_request_in > 0 && --fail_request_in == 0) return finish(pair, fail_status, fail_vendor_error);
  QueuePair* const peer = peer_of(pair);
  if (peer == nullptr) {
    if (fail_request_in > 0) ++fail_request_in;  // it was not carried out
    return wait_for_peer(pair, patience_of(pair), IBV_WC_RETRY_EXC_ERR);
  }
  check_segments(pair.pd, pair.sends.front().segments, pair.sends.front().opcode == IBV_WR_RDMA_READ);
  if (pair.sends.front().opcode == IBV_WR_SEND) {
    step_send(pair, *peer, lock);
  } else {
    step_rdma(pair, *peer, lock);
  }
}

void World::step_send(QueuePair& pair, QueuePair& peer, Lock& lock) {
  if (peer.receives.empty()) {
    return wait_for_peer(pair, kReceiverNotReady * (pair.attributes.rnr_retry + 1), IBV_WC_RNR_RETRY_EXC_ERR);
  }
  const Request& request = pair.sends.front();
  const Receive receive = peer.receives.front();
  peer.receives.pop_front();
  check_segments(peer.pd, receive.segments, true);
  if (total(receive.segments) < request.size) {
    complete_receive(peer, receive, IBV_WC_LOC_LEN_ERR, 0);
    to_error(peer);
    return finish(pair, IBV_WC_REM_INV_REQ_ERR);
  }
  move(lock, pair, peer, request, receive.segments, nullptr);
  complete_receive(peer, receive, IBV_WC_SUCCESS, request.size, request.urgent, pair.qp_num);
  finish(pair, IBV_WC_SUCCESS);
}

void World::step_rdma(QueuePair& pair, QueuePair& peer, Lock& lock) {
  const Request& request = pair.sends.front();
  if (request.size == 0) return finish(pair, IBV_WC_SUCCESS);  // its key is not looked at
  const bool reads = request.opcode == IBV_WR_RDMA_READ;
  if (reads && pair.attributes.max_rd_atomic > peer.attributes.max_dest_rd_atomic) {
    to_error(peer);
    return finish(pair, IBV_WC_REM_INV_REQ_ERR);
  }
  const unsigned needed = reads ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
  const auto found = regions.find(request.remote_key - 1);
  Region* const region = found == regions.end() ? nullptr : found->second;
  const bool allowed = region != nullptr && !region->leaving && region->rkey == request.remote_key &&
                       region->pd == peer.pd && region->holds(request.remote_address, request.size) &&
                       (static_cast<unsigned>(region->access) & needed) != 0 &&
                       (peer.attributes.qp_access_flags & needed) != 0;
  if (!allowed) {
    to_error(peer);
    return finish(pair, IBV_WC_REM_ACCESS_ERR);
  }
  move(lock, pair, peer, request, {{request.remote_address, static_cast<std::uint32_t>(request.size), 0}},
       region);
  finish(pair, IBV_WC_SUCCESS);
}

// Without the mutex, as hardware does; nothing that it uses can go meanwhile.
void World::move(Lock& lock, QueuePair& pair, QueuePair& peer, const Request& request,
                 const std::vector<ibv_sge>& theirs, Region* remote) {
  std::vector<int*> used = {&pair.busy, &peer.busy};
  if (!request.has_inline) {
    for (const ibv_sge& segment : request.segments) used.push_back(&region_of(segment.lkey, pair.pd)->busy);
  }
  if (remote != nullptr) {
    used.push_back(&remote->busy);
  } else {
    for (const ibv_sge& segment : theirs) used.push_back(&region_of(segment.lkey, peer.pd)->busy);
  }
  for (int* busy : used) ++*busy;
  const std::vector<ibv_sge> ours = source_of(request);
  const bool reads = request.opcode == IBV_WR_RDMA_READ;
  lock.unlock();
  copy(reads ? theirs : ours, reads ? ours : theirs);
  lock.lock();
  for (int* busy : used) --*busy;
  changed.notify_all();
}

}  // namespace stagewire::fake_verbs
