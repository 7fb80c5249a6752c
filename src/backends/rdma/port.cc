#include "backends/rdma/port.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.hpp"
#include "base/text.hpp"
#include "memory/dma_buffer.hpp"

namespace stagewire::backends::rdma {
namespace {

// More than any host's peers need; 64 bytes each at most.
constexpr int kMostEntries = 1 << 16;

Status set_nonblocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    return base::system_error("fcntl(O_NONBLOCK) of an RDMA event channel", errno);
  }
  return {};
}

Error refused(std::string_view what, const std::string& port) {
  return base::error(ErrorCode::failed, port, ": ", what, ": ", base::errno_text(errno));
}

}  // namespace

std::string port_name(std::string_view device, int port) {
  return base::text(device, ":", port);
}

std::uint32_t bytes_of(ibv_mtu mtu) {
  return 128U << static_cast<unsigned>(mtu);
}

ibv_mtu mtu_of(std::uint32_t bytes) {
  for (const ibv_mtu mtu : {IBV_MTU_4096, IBV_MTU_2048, IBV_MTU_1024, IBV_MTU_512}) {
    if (bytes >= bytes_of(mtu)) return mtu;
  }
  return IBV_MTU_256;
}

Result<std::shared_ptr<Port>> Port::open(const Verbs& verbs, ibv_device* device, std::uint8_t number,
                                         const Settings& settings) {
  std::shared_ptr<Port> port(new Port(verbs, settings, number));
  if (Status ok = port->set_up(device); !ok) return ok.error();
  return port;
}

Status Port::set_up(ibv_device* device) {
  name_ = port_name(verbs_.get_device_name(device), number_);
  context_ = Handle<ibv_context>(verbs_.open_device(device), {&verbs_});
  if (!context_) return refused("the device does not open", name_);
  if (Status ok = read_attributes(); !ok) return ok;
  domain_ = Handle<ibv_pd>(verbs_.alloc_pd(context_.get()), {&verbs_});
  if (!domain_) return refused("no protection domain", name_);
  if (Status ok = make_queues(); !ok) return ok;
  return set_nonblocking(context_->async_fd);
}

Status Port::read_attributes() {
  ibv_device_attr device{};
  ibv_port_attr port{};
  if (verbs_.query_device(context_.get(), &device) != 0)
    return refused("the device says nothing of itself", name_);
  if (const int problem = Verbs::query_port(context_.get(), number_, port); problem != 0) {
    return base::error(ErrorCode::failed, name_, ": query of the port: ", base::errno_text(problem));
  }
  if (port.state != IBV_PORT_ACTIVE && port.state != IBV_PORT_ACTIVE_DEFER) {
    return base::error(ErrorCode::unavailable, name_, ": the port is not active (state ",
                       static_cast<int>(port.state), "): bring its link up");
  }
  ethernet_ = port.link_layer == IBV_LINK_LAYER_ETHERNET;
  lid_ = port.lid;
  mtu_ = port.active_mtu;
  if (settings_.path_mtu != 0) mtu_ = std::min(mtu_, mtu_of(settings_.path_mtu));
  limits_.queue_entries = device.max_cqe;
  limits_.work_requests = device.max_qp_wr;
  limits_.segments = device.max_sge;
  const auto reads = [](int count) { return static_cast<std::uint8_t>(std::clamp(count, 1, 128)); };
  limits_.reads_served = reads(device.max_qp_rd_atom);
  limits_.reads_asked = reads(device.max_qp_init_rd_atom);
  limits_.message_size = port.max_msg_sz;
  limits_.region_size = device.max_mr_size;
  gid_entries_ = port.gid_tbl_len;
  if (Status ok = choose_address(); !ok) return ok;
  base::log(LogLevel::info, "rdma", describe());
  return {};
}

Status Port::choose_address() {
  auto table = gid_table();
  auto chosen = choose_gid(table, settings_.gid_index);
  if (!chosen) return chosen.error().with_context(name_);
  const std::lock_guard lock(gid_mutex_);
  gid_ = *chosen;
  other_gids_ = std::move(table);
  std::erase_if(other_gids_, [&](const GidEntry& entry) { return entry.index == gid_.index; });
  return {};
}

// After a port was down its table may be in another order. Peers know the address that it had: with another
// one it is reached by new peers only.
void Port::refresh_address() {
  const Rail before = rail();
  if (Status ok = choose_address(); !ok) return base::log(LogLevel::warning, "rdma", ok.error().message());
  const bool same = rail().gid == before.gid;
  base::log(same ? LogLevel::debug : LogLevel::warning, "rdma", describe(),
            same ? "" : "; peers that know the address before cannot call: restart this engine");
}

std::string Port::describe() const {
  const std::lock_guard lock(gid_mutex_);
  std::string text = base::text(name_, ": ", rdma::describe(gid_), ", MTU ", bytes_of(mtu_));
  for (const GidEntry& entry : other_gids_) text += ", not " + rdma::describe(entry);
  return text;
}

std::vector<GidEntry> Port::gid_table() const {
  std::vector<GidEntry> table;
  for (int index = 0; index < gid_entries_; ++index) {
    GidEntry entry;
    entry.index = index;
    entry.kind = ethernet_ ? GidKind::roce_v2 : GidKind::infiniband;
    ibv_gid_entry found{};
    if (verbs_.query_gid_ex != nullptr) {
      const auto place = static_cast<std::uint32_t>(index);
      if (verbs_.query_gid_ex(context_.get(), number_, place, &found, 0, sizeof found) != 0) continue;
      if (found.gid_type == IBV_GID_TYPE_ROCE_V1) entry.kind = GidKind::roce_v1;
    } else if (verbs_.query_gid(context_.get(), number_, index, &found.gid) != 0) {
      continue;
    }
    std::copy_n(found.gid.raw, entry.gid.size(), entry.gid.begin());
    const bool empty = std::all_of(entry.gid.begin(), entry.gid.end(), [](auto byte) { return byte == 0; });
    if (!empty) table.push_back(entry);
  }
  return table;
}

Status Port::make_queues() {
  channel_ = Handle<ibv_comp_channel>(verbs_.create_comp_channel(context_.get()), {&verbs_});
  if (!channel_) return refused("no completion channel", name_);
  if (Status ok = set_nonblocking(channel_->fd); !ok) return ok;
  entries_ = std::min(limits_.queue_entries, kMostEntries);
  const auto make = [&] {
    return Handle<ibv_cq>(verbs_.create_cq(context_.get(), entries_, nullptr, channel_.get(), 0), {&verbs_});
  };
  sent_ = make();
  received_ = make();
  if (!sent_ || !received_) {
    return refused(base::text("no completion queue of ", entries_, " entries"), name_);
  }
  return {};
}

Rail Port::rail() const {
  Rail rail;
  rail.name = name_;
  rail.ethernet = ethernet_;
  const std::lock_guard lock(gid_mutex_);
  rail.gid.assign(gid_.gid.begin(), gid_.gid.end());
  rail.lid = lid_;
  rail.mtu = bytes_of(mtu_);
  return rail;
}

bool Port::take_entries(int count) {
  if (entries_taken_.fetch_add(count) + count <= entries_) return true;
  entries_taken_.fetch_sub(count);
  return false;
}

ibv_ah_attr Port::path_to(const Rail& rail) const {
  ibv_ah_attr path{};
  path.port_num = number_;
  path.dlid = static_cast<std::uint16_t>(rail.lid);
  path.sl = settings_.service_level;
  // An InfiniBand peer may be known by its LID alone.
  path.is_global =
      ethernet_ || std::any_of(rail.gid.begin(), rail.gid.end(), [](auto byte) { return byte != 0; });
  std::copy_n(rail.gid.begin(), sizeof path.grh.dgid.raw, path.grh.dgid.raw);
  path.grh.hop_limit = 64;
  path.grh.traffic_class = settings_.traffic_class;
  const std::lock_guard lock(gid_mutex_);
  path.grh.sgid_index = static_cast<std::uint8_t>(gid_.index);
  return path;
}

Result<Handle<ibv_mr>> Port::register_memory(void* address, std::size_t size, int access) {
  if (size > limits_.region_size) {
    return base::error(ErrorCode::too_large, name_, ": registers at most ", limits_.region_size,
                       " bytes at once, not ", size);
  }
  Handle<ibv_mr> region(verbs_.reg_mr(domain_.get(), address, size, access), {&verbs_});
  if (region) return region;
  const int problem = errno;
  if (problem == ENOMEM) {
    return base::error(ErrorCode::exhausted, name_, ": registering ", base::size_text(size),
                       " of memory: ", base::errno_text(problem),
                       "; raise the limit of locked memory (ulimit -l unlimited)");
  }
  return base::error(ErrorCode::failed, name_, ": registering ", base::size_text(size),
                     " of memory: ", base::errno_text(problem));
}

Result<Handle<ibv_mr>> Port::register_region(const MemoryRegion& region, int access) {
  if (region.kind != MemoryKind::gpu) return register_memory(region.data, region.size, access);
  auto as_buffer = register_dma_buffer(region, access);
  if (as_buffer) return as_buffer;
  auto by_address = register_memory(region.data, region.size, access);
  if (by_address) return by_address;
  return base::error(ErrorCode::unsupported, "memory of device ", region.device, ": ",
                     as_buffer.error().message(), "; by its address: ", by_address.error().message(),
                     " (is nvidia-peermem or amdgpu's peer memory loaded?)");
}

Result<Handle<ibv_mr>> Port::register_dma_buffer(const MemoryRegion& region, int access) {
  if (verbs_.reg_dmabuf_mr == nullptr) {
    return base::error(ErrorCode::unsupported,
                       "this libibverbs knows no dma-buf (rdma-core 34 and newer do)");
  }
  const auto buffer = memory::export_dma_buffer(region);
  if (!buffer) return buffer.error();
  Handle<ibv_mr> handle(
      verbs_.reg_dmabuf_mr(domain_.get(), buffer->offset, region.size,
                           reinterpret_cast<std::uintptr_t>(region.data), buffer->fd.get(), access),
      {&verbs_});
  if (handle) return handle;
  return refused(base::text("registering a dma-buf of ", base::size_text(region.size)), name_);
}

std::size_t Port::poll(bool of_sent, ibv_wc* completions, std::size_t most) {
  Stash& stash = of_sent ? stashed_sent_ : stashed_received_;
  if (stash.count > 0) {
    const std::size_t count = std::min(std::exchange(stash.count, 0), most);
    std::copy_n(stash.completions, count, completions);
    return count;
  }
  const int count = ibv_poll_cq(of_sent ? sent_.get() : received_.get(), static_cast<int>(most), completions);
  return count > 0 ? static_cast<std::size_t>(count) : 0;
}

bool Port::arm(bool only_urgent, bool of_sent_too) {
  const auto look = [](ibv_cq* queue, Stash& stash) {
    if (stash.count > 0) return;
    const int count = ibv_poll_cq(queue, static_cast<int>(kStash), stash.completions);
    stash.count = count > 0 ? static_cast<std::size_t>(count) : 0;
  };
  ibv_req_notify_cq(received_.get(), only_urgent ? 1 : 0);
  look(received_.get(), stashed_received_);
  if (of_sent_too) {
    ibv_req_notify_cq(sent_.get(), 0);
    look(sent_.get(), stashed_sent_);
  }
  return stashed_received_.count == 0 && stashed_sent_.count == 0;
}

void Port::take_events() {
  ibv_cq* queue = nullptr;
  void* cookie = nullptr;
  while (verbs_.get_cq_event(channel_.get(), &queue, &cookie) == 0) verbs_.ack_cq_events(queue, 1);
}

Port::Change Port::take_async_events() {
  Change change;
  bool addresses = false;
  ibv_async_event event{};
  while (verbs_.get_async_event(context_.get(), &event) == 0) {
    switch (event.event_type) {
      case IBV_EVENT_PORT_ERR:
        change.port_down = true;
        break;
      case IBV_EVENT_PORT_ACTIVE:
        change.port_up = addresses = true;
        break;
      case IBV_EVENT_GID_CHANGE:
        addresses = true;
        break;
      case IBV_EVENT_DEVICE_FATAL:
        change.fatal = true;
        break;
      default:
        break;
    }
    base::log(LogLevel::info, "rdma", name_,
              ": event of the device: ", verbs_.event_type_str(event.event_type));
    verbs_.ack_async_event(&event);
  }
  if (change.port_up) active_ = true;
  if (change.port_down || change.fatal) active_ = false;
  if (addresses) refresh_address();
  return change;
}

}  // namespace stagewire::backends::rdma
