#include "backends/rdma/greeter.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.hpp"
#include "base/text.hpp"

namespace stagewire::backends::rdma {
namespace {

constexpr base::Duration kMendPause = std::chrono::seconds(1);

}  // namespace

Result<std::unique_ptr<Greeter>> Greeter::create(std::shared_ptr<Port> port) {
  std::unique_ptr<Greeter> greeter(new Greeter(std::move(port)));
  if (Status ok = greeter->set_up(); !ok)
    return ok.error().with_context(greeter->port_->name() + ": greetings");
  return greeter;
}

Status Greeter::set_up() {
  const std::size_t size = kReceives * kReceiveSize + kSends * kMaxGreeting;
  memory_ = std::make_unique<std::byte[]>(size);
  auto region = port_->register_memory(memory_.get(), size, IBV_ACCESS_LOCAL_WRITE);
  if (!region) return region.error();
  region_ = std::move(*region);
  if (!port_->take_entries(kEntries))
    return base::error(ErrorCode::exhausted, "the completion queue is full");
  ibv_qp_init_attr wanted{};
  wanted.send_cq = port_->sent();
  wanted.recv_cq = port_->received();
  wanted.qp_type = IBV_QPT_UD;
  wanted.cap.max_send_wr = kSends;
  wanted.cap.max_recv_wr = kReceives;
  wanted.cap.max_send_sge = wanted.cap.max_recv_sge = 1;
  pair_ = Handle<ibv_qp>(port_->verbs().create_qp(port_->domain(), &wanted), {&port_->verbs()});
  if (!pair_) return base::system_error("creating a datagram queue pair", errno);
  if (Status ok = to_ready(); !ok) return ok;
  return fill();
}

Status Greeter::fill() {
  for (std::uint32_t index = 0; index < kReceives; ++index) {
    if (Status ok = post_receive(index); !ok) return ok;
  }
  free_.clear();
  for (std::uint32_t index = 0; index < kSends; ++index) free_.push_back(index);
  return {};
}

Status Greeter::to_ready() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = port_->number();
  attributes.qkey = kKey;
  const Verbs& verbs = port_->verbs();
  int problem =
      verbs.modify_qp(pair_.get(), &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
  attributes = {};
  attributes.qp_state = IBV_QPS_RTR;
  if (problem == 0) problem = verbs.modify_qp(pair_.get(), &attributes, IBV_QP_STATE);
  attributes.qp_state = IBV_QPS_RTS;
  if (problem == 0) problem = verbs.modify_qp(pair_.get(), &attributes, IBV_QP_STATE | IBV_QP_SQ_PSN);
  return problem == 0 ? Status() : base::system_error("readying a datagram queue pair", problem);
}

Status Greeter::post_receive(std::uint32_t index) {
  ibv_sge segment{reinterpret_cast<std::uintptr_t>(receive_buffer(index)), kReceiveSize, region_->lkey};
  ibv_recv_wr request{};
  request.wr_id = generation_ << 32 | index;
  request.sg_list = &segment;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  const int problem = ibv_post_recv(pair_.get(), &request, &bad);
  return problem == 0 ? Status() : base::system_error("posting a receive for greetings", problem);
}

Result<ibv_ah*> Greeter::path_to(const Rail& rail) {
  if (paths_.size() >= kMaxPaths) paths_.clear();
  auto& path = paths_[{rail.gid, rail.lid}];
  if (!path) {
    ibv_ah_attr attributes = port_->path_to(rail);
    path = Handle<ibv_ah>(port_->verbs().create_ah(port_->domain(), &attributes), {&port_->verbs()});
  }
  if (path) return path.get();
  const int problem = errno;
  paths_.erase({rail.gid, rail.lid});
  Gid gid{};
  std::copy_n(rail.gid.begin(), gid.size(), gid.begin());
  return base::error(ErrorCode::unavailable, port_->name(), " finds no way to ", gid_text(gid), ": ",
                     base::errno_text(problem));
}

void Greeter::forget(const Rail& rail) {
  paths_.erase({rail.gid, rail.lid});
}

Status Greeter::send(const Rail& to, std::span<const std::byte> greeting) {
  const std::size_t most = std::min<std::size_t>(kMaxGreeting, std::min(bytes_of(port_->mtu()), to.mtu));
  if (greeting.size() > most) {
    return base::error(ErrorCode::too_large, "a greeting of ", greeting.size(), " bytes; ", port_->name(),
                       " sends at most ", most, " to ", to.name);
  }
  const auto path = path_to(to);
  if (!path) return path.error();
  const std::lock_guard lock(mutex_);
  if (broken_)
    return base::error(ErrorCode::unavailable, port_->name(), ": greetings cannot be sent just now");
  if (free_.empty()) return base::error(ErrorCode::exhausted, kSends, " greetings are on their way already");
  const std::uint32_t index = free_.back();
  std::memcpy(send_buffer(index), greeting.data(), greeting.size());
  ibv_sge segment{reinterpret_cast<std::uintptr_t>(send_buffer(index)),
                  static_cast<std::uint32_t>(greeting.size()), region_->lkey};
  ibv_send_wr request{};
  request.wr_id = generation_ << 32 | index;
  request.sg_list = &segment;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED;
  request.wr.ud.ah = *path;
  request.wr.ud.remote_qpn = to.greeter;
  request.wr.ud.remote_qkey = kKey;
  ibv_send_wr* bad = nullptr;
  if (const int problem = ibv_post_send(pair_.get(), &request, &bad); problem != 0) {
    return base::system_error("sending a greeting", problem);
  }
  free_.pop_back();
  return {};
}

bool Greeter::idle() {
  const std::lock_guard lock(mutex_);
  return free_.size() == kSends;
}

void Greeter::on_sent(const ibv_wc& completion) {
  const std::lock_guard lock(mutex_);
  if (!is_of_now(completion)) return;
  free_.push_back(static_cast<std::uint32_t>(completion.wr_id));
  if (completion.status != IBV_WC_SUCCESS) note_failure(completion);
}

void Greeter::note_failure(const ibv_wc& completion) {
  if (std::exchange(broken_, true)) return;
  base::log(LogLevel::warning, "rdma", port_->name(), ": the queue pair for greetings has failed (",
            port_->verbs().wc_status_str(completion.status), "); it is made ready again");
}

Greeter::Health Greeter::mend(base::TimePoint now) {
  const std::lock_guard lock(mutex_);
  if (!broken_) return Health::good;
  if (now < mend_at_) return Health::later;
  mend_at_ = now + kMendPause;
  ++generation_;  // what was posted before counts no more
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RESET;
  const int problem = port_->verbs().modify_qp(pair_.get(), &attributes, IBV_QP_STATE);
  Status done = problem == 0 ? to_ready() : base::system_error("stopping a datagram queue pair", problem);
  if (done) done = fill();
  if (done) {
    broken_ = false;
    return Health::good;
  }
  base::log(LogLevel::debug, "rdma", port_->name(), ": greetings: ", done.error().message());
  return Health::later;
}

std::span<const std::byte> Greeter::on_received(const ibv_wc& completion) const {
  if (!is_of_now(completion) || completion.status != IBV_WC_SUCCESS || completion.byte_len < kHeader)
    return {};
  return {receive_buffer(completion.wr_id) + kHeader, completion.byte_len - kHeader};
}

void Greeter::take_back(const ibv_wc& completion) {
  if (!is_of_now(completion)) return;
  if (completion.status != IBV_WC_SUCCESS) {
    const std::lock_guard lock(mutex_);
    return note_failure(completion);
  }
  const Status posted = post_receive(static_cast<std::uint32_t>(completion.wr_id));
  if (!posted) base::log(LogLevel::warning, "rdma", port_->name(), ": ", posted.error().message());
}

}  // namespace stagewire::backends::rdma
