#include "rdma/independent_peer.hpp"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "rdma/independent_verbs.hpp"
#include "rdma/independent_wire.hpp"

namespace stagewire::rdma_test {
namespace {

constexpr std::size_t kSlots = 4096;
constexpr int kReceives = 64;
constexpr auto kPatience = std::chrono::seconds(10);

void put_host_place(Octets& out) {
  put_array(out, 3);
  out.push_back(0xff);  // no device
  put_number(out, 1);   // host memory
  out.push_back(0xff);  // no node
}

}  // namespace

IndependentPeer::IndependentPeer(std::string key) : key_(std::move(key)), verbs_(Verbs::open()) {
  int count = 0;
  ibv_device** devices = verbs_->get_device_list(&count);
  if (devices == nullptr || count == 0) fail("no device");
  context_ = verbs_->open_device(devices[0]);
  verbs_->free_device_list(devices);
  if (context_ == nullptr) fail("the device does not open");
  domain_ = verbs_->alloc_pd(context_);
  const verbs_context* table = verbs_get_ctx_op(context_, query_port);
  if (table == nullptr || table->query_port(context_, 1, &port_attributes_, sizeof port_attributes_) != 0) {
    fail("no port");
  }
  // The last IPv4 address: RoCE v2 comes after v1.
  for (int i = 0; i < port_attributes_.gid_tbl_len; ++i) {
    union ibv_gid gid {};
    if (verbs_->query_gid(context_, 1, i, &gid) != 0) continue;
    if (gid.raw[10] != 0xff || gid.raw[11] != 0xff || gid.raw[0] != 0) continue;
    gid_ = gid;
    gid_index_ = i;
  }
  slots_.resize(kSlots * 16);
  slots_region_ = verbs_->reg_mr(domain_, slots_.data(), slots_.size(), IBV_ACCESS_LOCAL_WRITE);
  if (slots_region_ == nullptr) fail("no memory for notifications");
}

IndependentPeer::~IndependentPeer() {
  stopping_ = true;
  if (listener_ >= 0) ::shutdown(listener_, SHUT_RDWR);
  if (server_.joinable()) server_.join();
  if (listener_ >= 0) ::close(listener_);
  for (const auto* list : {&pairs_, &accepted_}) {
    for (const Pair& pair : *list) {
      verbs_->destroy_qp(pair.qp);
      verbs_->destroy_cq(pair.cq);
    }
  }
  for (const auto& entry : memory_) verbs_->dereg_mr(entry.second);
  verbs_->dereg_mr(slots_region_);
  verbs_->dealloc_pd(domain_);
  verbs_->close_device(context_);
}

Octets IndependentPeer::engine_desc() const {
  Octets out;
  put_array(out, 6);
  put_text(out, key_);
  put_text(out, "node");
  put_text(out, "host");
  put_text(out, "127.0.0.1");
  put_number(out, static_cast<std::uint64_t>(port_));
  put_number(out, static_cast<std::uint64_t>(::getpid()));
  return out;
}

Octets IndependentPeer::add_memory(std::uint32_t id, void* data, std::size_t size) {
  constexpr int kAccess =
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  ibv_mr* region = verbs_->reg_mr(domain_, data, size, kAccess);
  if (region == nullptr) fail("registration");
  {
    const std::lock_guard lock(mutex_);
    memory_[id] = region;
  }
  const Octets zeros(64);
  Octets out;
  put_array(out, 15);
  put_text(out, key_);
  put_number(out, id);
  out.push_back(0xff);
  put_text(out, "");
  put_number(out, reinterpret_cast<std::uintptr_t>(data));
  put_number(out, size);
  put_number(out, 1);
  put_binary(out, zeros.data(), zeros.size());
  put_number(out, 0);
  put_number(out, 0);
  put_binary(out, zeros.data(), zeros.size());
  out.push_back(0xff);
  put_text(out, "");
  put_number(out, 0);
  put_number(out, 0);
  return out;
}

void IndependentPeer::meet_device() const {
  union ibv_gid gid {};
  if (verbs_->query_gid(context_, 1, 0, &gid) != 0) fail("no GID");
}

void IndependentPeer::forget_memory(std::uint32_t id) {
  const std::lock_guard lock(mutex_);
  verbs_->dereg_mr(memory_.at(id));
  memory_.erase(id);
}

IndependentPeer::Engine IndependentPeer::read_engine(const Octets& desc) {
  Reader in(desc);
  if (in.array() < 6) fail("a short EngineDesc");
  Engine engine;
  engine.key = in.text();
  in.text();
  in.text();
  engine.host = in.text();
  engine.port = static_cast<int>(in.number());
  return engine;
}

IndependentPeer::Memory IndependentPeer::read_memory(const Octets& desc) {
  Reader in(desc);
  if (in.array() < 15) fail("a short MemoryDesc");
  Memory memory;
  in.text();
  memory.id = static_cast<std::uint32_t>(in.number());
  in.number();
  in.text();
  memory.address = static_cast<std::uint64_t>(in.number());
  memory.size = static_cast<std::uint64_t>(in.number());
  return memory;
}

// --- Queue pairs

IndependentPeer::Pair IndependentPeer::make_pair(bool posts_receives) {
  Pair pair;
  pair.cq = verbs_->create_cq(context_, 1024, nullptr, nullptr, 0);
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = pair.cq;
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap.max_send_wr = 512;
  wanted.cap.max_recv_wr = kReceives;
  wanted.cap.max_send_sge = wanted.cap.max_recv_sge = 1;
  pair.qp = pair.cq == nullptr ? nullptr : verbs_->create_qp(domain_, &wanted);
  if (pair.qp == nullptr) fail("no queue pair");
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = 1;
  attributes.qp_access_flags =
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  if (verbs_->modify_qp(pair.qp, &attributes,
                        IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0) {
    fail("INIT");
  }
  for (int i = 0; posts_receives && i < kReceives; ++i) {
    const std::size_t slot = next_slot_++ % kSlots;
    ibv_sge segment{reinterpret_cast<std::uintptr_t>(slots_.data() + slot * 16), 16, slots_region_->lkey};
    ibv_recv_wr request{};
    request.wr_id = slot;
    request.sg_list = &segment;
    request.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    if (ibv_post_recv(pair.qp, &request, &bad) != 0) fail("receive");
  }
  return pair;
}

void IndependentPeer::connect_pair(const Pair& pair, std::uint32_t number, std::uint32_t lid,
                                   const std::uint8_t* gid) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = port_attributes_.active_mtu;
  attributes.dest_qp_num = number;
  attributes.max_dest_rd_atomic = 16;
  attributes.min_rnr_timer = 12;
  attributes.ah_attr.port_num = 1;
  attributes.ah_attr.dlid = static_cast<std::uint16_t>(lid);
  attributes.ah_attr.is_global = 1;
  std::memcpy(attributes.ah_attr.grh.dgid.raw, gid, 16);
  attributes.ah_attr.grh.hop_limit = 16;
  attributes.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(gid_index_);
  if (verbs_->modify_qp(pair.qp, &attributes,
                        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0) {
    fail("RTR");
  }
  attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = 14;
  attributes.retry_cnt = 7;
  attributes.rnr_retry = 7;
  attributes.max_rd_atomic = 16;
  if (verbs_->modify_qp(pair.qp, &attributes,
                        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                            IBV_QP_MAX_QP_RD_ATOMIC) != 0) {
    fail("RTS");
  }
}

Octets IndependentPeer::register_frame(const Pair& pair) const {
  Octets body;
  put_array(body, 6);
  put_text(body, key_);
  put_array(body, 2);
  put_host_place(body);
  put_host_place(body);
  put_number(body, 0);
  put_array(body, 5);
  put_number(body, 0);
  put_number(body, pair.qp->qp_num);
  put_number(body, 1);
  put_array(body, 1);
  put_number(body, port_attributes_.lid);
  put_array(body, 2);
  put_binary(body, gid_.raw, 16);
  const std::uint8_t nonsense[6] = {1, 2, 3, 4, 5, 6};  // what MORI-IO has there is not initialised
  put_binary(body, nonsense, 6);
  put_number(body, 0);
  put_number(body, 0);
  return framed(0, body);
}

Octets IndependentPeer::exchange(const Engine& engine, const Octets& frame) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(engine.port));
  ::inet_pton(AF_INET, engine.host.c_str(), &address.sin_addr);
  if (::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    ::close(socket);
    fail("connect to " + engine.host + ":" + std::to_string(engine.port));
  }
  Octets reply;
  if (send_all(socket, frame)) reply = receive_frame(socket);
  ::close(socket);
  return reply;
}

IndependentPeer::Pair IndependentPeer::connect(const Engine& engine) {
  Pair pair = make_pair(true);
  {
    const std::lock_guard lock(mutex_);
    pairs_.push_back(pair);
  }
  const Octets reply = exchange(engine, register_frame(pair));
  if (reply.empty() || reply[0] != 0) fail("RegEndpoint was not answered");
  Reader in(reply, 5);
  if (in.array() != 6) fail("the answer to RegEndpoint has another size");
  if (in.text() != engine.key) fail("another engine answered");
  if (in.array() != 2) fail("topo");
  for (int i = 0; i < 2; ++i) {
    if (in.array() != 3 || in.number() != -1 || in.number() != 1 || in.number() != -1)
      fail("topo is not ours");
  }
  pair.peer_device = static_cast<std::uint32_t>(in.number());
  if (in.array() != 5) fail("the handle");
  if (in.number() != 0) fail("psn");
  const auto number = static_cast<std::uint32_t>(in.number());
  in.number();
  if (in.array() != 1) fail("ib");
  const auto lid = static_cast<std::uint32_t>(in.number());
  if (in.array() != 2) fail("eth");
  const Octets gid = in.binary();
  if (gid.size() != 16 || in.binary().size() != 6) fail("gid and mac");
  connect_pair(pair, number, lid, gid.data());
  return pair;
}

IndependentPeer::Region IndependentPeer::ask_region(const Engine& engine, std::uint32_t device,
                                                    std::uint32_t id) {
  Octets body;
  put_array(body, 4);
  put_text(body, engine.key);
  put_number(body, device);
  put_number(body, id);
  put_array(body, 4);
  for (int i = 0; i < 4; ++i) put_number(body, 0);
  const Octets reply = exchange(engine, framed(1, body));
  if (reply.empty() || reply[0] != 1) fail("AskMemoryRegion was not answered");
  Reader in(reply, 5);
  if (in.array() != 4 || in.text() != engine.key) fail("the answer to AskMemoryRegion");
  if (in.number() != device || in.number() != id) fail("the answer is to another question");
  if (in.array() != 4) fail("the region");
  Region region;
  region.address = static_cast<std::uint64_t>(in.number());
  in.number();
  region.rkey = static_cast<std::uint32_t>(in.number());
  region.size = static_cast<std::uint64_t>(in.number());
  return region;
}

ibv_wc_status IndependentPeer::move(const Pair& pair, bool writes, std::uint32_t local_id,
                                    std::size_t local_offset, const Region& region, std::size_t remote_offset,
                                    std::size_t size) {
  ibv_sge segment{};
  {
    const std::lock_guard lock(mutex_);
    const ibv_mr* local = memory_.at(local_id);
    segment = {reinterpret_cast<std::uintptr_t>(local->addr) + local_offset, static_cast<std::uint32_t>(size),
               local->lkey};
  }
  ibv_send_wr request{};
  request.wr_id = kSlots;
  request.opcode = writes ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
  request.send_flags = IBV_SEND_SIGNALED;
  request.sg_list = &segment;
  request.num_sge = 1;
  request.wr.rdma.remote_addr = region.address + remote_offset;
  request.wr.rdma.rkey = region.rkey;
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(pair.qp, &request, &bad) != 0) fail("post");
  return wait_send(pair).status;
}

void IndependentPeer::notify(const std::vector<Pair>& pairs, std::uint64_t transfer) {
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    notify_one(pairs[i], transfer, static_cast<std::int32_t>(i), static_cast<std::int32_t>(pairs.size()));
  }
}

void IndependentPeer::notify_one(const Pair& pair, std::uint64_t transfer, std::int32_t index,
                                 std::int32_t count) {
  const std::size_t slot = next_slot_++ % kSlots;
  std::uint8_t* bytes = slots_.data() + slot * 16;
  std::memcpy(bytes, &transfer, 8);
  std::memcpy(bytes + 8, &index, 4);
  std::memcpy(bytes + 12, &count, 4);
  ibv_sge segment{reinterpret_cast<std::uintptr_t>(bytes), 16, slots_region_->lkey};
  ibv_send_wr request{};
  request.wr_id = kSlots;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  request.sg_list = &segment;
  request.num_sge = 1;
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(pair.qp, &request, &bad) != 0) fail("post of a notification");
  if (wait_send(pair).status != IBV_WC_SUCCESS) fail("a notification was not taken");
}

void IndependentPeer::close_pair(const Pair& pair) {
  const std::lock_guard lock(mutex_);
  verbs_->destroy_qp(pair.qp);
  verbs_->destroy_cq(pair.cq);
  std::erase_if(pairs_, [&](const Pair& known) { return known.qp == pair.qp; });
}

ibv_wc IndependentPeer::wait_send(const Pair& pair) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  for (;;) {
    ibv_wc completion{};
    const std::lock_guard lock(mutex_);
    if (ibv_poll_cq(pair.cq, 1, &completion) == 1) {
      if (completion.wr_id == kSlots) return completion;
      const std::uint8_t* bytes = slots_.data() + completion.wr_id * 16;
      std::uint64_t transfer = 0;
      std::int32_t count = 0;
      std::memcpy(&transfer, bytes, 8);
      std::memcpy(&count, bytes + 12, 4);
      if (completion.status == IBV_WC_SUCCESS) notified_[transfer] = {notified_[transfer].first + 1, count};
    }
    if (std::chrono::steady_clock::now() > deadline) fail("no completion");
  }
}

void IndependentPeer::collect(const Pair& pair) {
  ibv_wc completion{};
  while (ibv_poll_cq(pair.cq, 1, &completion) == 1) {
    if (completion.status != IBV_WC_SUCCESS || completion.byte_len != 16) continue;
    const std::uint8_t* bytes = slots_.data() + completion.wr_id * 16;
    std::uint64_t transfer = 0;
    std::int32_t count = 0;
    std::memcpy(&transfer, bytes, 8);
    std::memcpy(&count, bytes + 12, 4);
    notified_[transfer] = {notified_[transfer].first + 1, count};
  }
}

bool IndependentPeer::wait_notified(std::uint64_t transfer, std::int32_t count) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < deadline) {
    const std::lock_guard lock(mutex_);
    for (const auto* list : {&pairs_, &accepted_}) {
      for (const Pair& pair : *list) collect(pair);
    }
    if (notified_[transfer] == std::pair(count, count)) return true;
  }
  return false;
}

// --- As the target

void IndependentPeer::listen(bool posts_receives) {
  posts_receives_ = posts_receives;
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener_, generic, size) != 0 || ::listen(listener_, 128) != 0) fail("listen");
  ::getsockname(listener_, generic, &size);
  port_ = ntohs(address.sin_port);
  server_ = std::thread([this] { serve(); });
}

void IndependentPeer::serve() {
  while (!stopping_) {
    const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) return;
    try {
      const Octets question = receive_frame(socket);
      if (!question.empty()) send_all(socket, answer(question));
    } catch (const std::exception&) {
      // As MORI-IO: the connection is closed without an answer.
    }
    ::close(socket);
  }
}

Octets IndependentPeer::answer(const Octets& frame) {
  Reader in(frame, 5);
  Octets body;
  if (frame[0] == 0) {
    if (in.array() != 6) fail("RegEndpoint has another size");
    in.text();
    in.array();
    for (int i = 0; i < 2; ++i) {
      in.array();
      for (int k = 0; k < 3; ++k) in.number();
    }
    in.number();
    if (in.array() != 5) fail("the handle");
    in.number();
    const auto number = static_cast<std::uint32_t>(in.number());
    in.number();
    in.array();
    const auto lid = static_cast<std::uint32_t>(in.number());
    in.array();
    const Octets gid = in.binary();
    const std::lock_guard lock(mutex_);
    const Pair pair = make_pair(posts_receives_);
    connect_pair(pair, number, lid, gid.data());
    accepted_.push_back(pair);
    ++accepted_count_;
    return register_frame(pair);
  }
  if (in.array() != 4) fail("AskMemoryRegion has another size");
  in.text();
  const auto device = static_cast<std::uint64_t>(in.number());
  const auto id = static_cast<std::uint32_t>(in.number());
  put_array(body, 4);
  put_text(body, key_);
  put_number(body, device);
  put_number(body, id);
  put_array(body, 4);
  const std::lock_guard lock(mutex_);
  const auto known = memory_.find(id);
  const ibv_mr* region = known == memory_.end() ? nullptr : known->second;
  put_number(body, region == nullptr ? 0 : reinterpret_cast<std::uintptr_t>(region->addr));
  put_number(body, region == nullptr ? 0 : region->lkey);
  put_number(body, region == nullptr ? 0 : region->rkey);
  put_number(body, region == nullptr ? 0 : region->length);
  return framed(1, body);
}

void IndependentPeer::break_accepted() {
  const std::lock_guard lock(mutex_);
  for (const Pair& pair : accepted_) {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_ERR;
    verbs_->modify_qp(pair.qp, &attributes, IBV_QP_STATE);
  }
}

}  // namespace stagewire::rdma_test
