// Devices, contexts and everything on them but queue pairs.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "fake_verbs/export.hpp"
#include "fake_verbs/world.hpp"

namespace stagewire::fake_verbs {

int post_send(ibv_qp* pair, ibv_send_wr* first, ibv_send_wr** bad);
int post_receive(ibv_qp* pair, ibv_recv_wr* first, ibv_recv_wr** bad);

namespace {

template <typename T>
T* failed(int problem) {
  errno = problem;
  return nullptr;
}

int poll_queue(ibv_cq* queue, int most, ibv_wc* completions) {
  World& world = World::get();
  Lock lock(world.mutex);
  if (world.enter(lock, "poll_cq") != 0) return -1;
  auto& entries = static_cast<CompletionQueue*>(queue)->entries;
  int count = 0;
  for (; count < most && !entries.empty(); ++count) {
    const CompletionQueue::Entry& entry = entries.front();
    completions[count] = entry.completion;
    if (const auto pair = world.pairs.find(entry.completion.qp_num); pair != world.pairs.end()) {
      (entry.of_send ? pair->second->sends_used : pair->second->receives_used) -= entry.places;
    }
    entries.pop_front();
  }
  return count;
}

int arm_queue(ibv_cq* queue, int only_urgent) {
  World& world = World::get();
  Lock lock(world.mutex);
  if (const int problem = world.enter(lock, "req_notify_cq"); problem != 0) return problem;
  auto& armed = static_cast<CompletionQueue*>(queue)->armed;
  using Armed = CompletionQueue::Armed;
  armed = only_urgent != 0 && armed != Armed::any ? Armed::urgent : Armed::any;
  return 0;
}

int query_port(ibv_context* context, std::uint8_t number, ibv_port_attr* attributes, std::size_t size) {
  World& world = World::get();
  Lock lock(world.mutex);
  if (const int problem = world.enter(lock, "query_port"); problem != 0) return problem;
  if (number != 1) return EINVAL;
  ibv_port_attr port{};
  port.state = of(context).on->port_active ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  port.max_mtu = port.active_mtu = IBV_MTU_4096;
  port.gid_tbl_len = 8;
  port.max_msg_sz = world.limits.message_size;
  port.link_layer = IBV_LINK_LAYER_ETHERNET;
  std::memcpy(attributes, &port, std::min(size, sizeof port));
  return 0;
}

}  // namespace

FAKE_VERBS ibv_device** ibv_get_device_list(int* count) {
  World& world = World::get();
  Lock lock(world.mutex);
  if (const int problem = world.enter(lock, "get_device_list"); problem != 0)
    return failed<ibv_device*>(problem);
  auto** list = new ibv_device*[static_cast<std::size_t>(world.device_count) + 1]();
  for (int i = 0; i < world.device_count; ++i) list[i] = &world.devices[static_cast<std::size_t>(i)];
  if (count != nullptr) *count = world.device_count;
  return list;
}

FAKE_VERBS void ibv_free_device_list(ibv_device** list) {
  delete[] list;
}

FAKE_VERBS const char* ibv_get_device_name(ibv_device* device) {
  return device->name;
}

FAKE_VERBS ibv_context* ibv_open_device(ibv_device* device) {
  World& world = World::get();
  Lock lock(world.mutex);
  if (const int problem = world.enter(lock, "open_device"); problem != 0) return failed<ibv_context>(problem);
  auto* made = new Context();
  made->on = static_cast<Device*>(device);
  made->sz = sizeof(verbs_context);
  made->query_port = query_port;
  ibv_context& context = made->context;
  context.device = device;
  context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  context.async_fd = made->file.fd();
  context.num_comp_vectors = 1;
  context.ops.post_send = post_send;
  context.ops.post_recv = post_receive;
  context.ops.poll_cq = poll_queue;
  context.ops.req_notify_cq = arm_queue;
  if (world.contexts.empty()) world.start_thread();
  world.contexts.insert(made);
  ++world.live["device"];
  return &context;
}

FAKE_VERBS int ibv_close_device(ibv_context* context) {
  World& world = World::get();
  Lock lock(world.mutex);
  Context* const closed = &of(context);
  require(world.contexts.erase(closed) == 1, "a device is closed twice");
  require(closed->users == 0, "a device is closed with ", closed->users, " domains, channels and queues");
  --world.live["device"];
  if (world.contexts.empty()) {
    require(world.unacknowledged_events == 0, world.unacknowledged_events,
            " events of devices are unacknowledged");
    world.stop_thread(lock);
  }
  lock.unlock();
  delete closed;
  return 0;
}

FAKE_VERBS int ibv_query_device(ibv_context*, ibv_device_attr* attributes) {
  World& world = World::get();
  Lock lock(world.mutex);
  if (const int problem = world.enter(lock, "query_device"); problem != 0) return errno = problem;
  *attributes = {};
  attributes->max_mr_size = world.limits.region_size;
  attributes->max_qp = 1 << 16;
  attributes->max_qp_wr = world.limits.work_requests;
  attributes->max_sge = world.limits.segments;
  attributes->max_cq = 1 << 16;
  attributes->max_cqe = world.limits.completion_entries;
  attributes->max_qp_rd_atom = attributes->max_qp_init_rd_atom = world.limits.reads;
  attributes->phys_port_cnt = 1;
  return 0;
}

FAKE_VERBS int ibv_query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* gid) {
  World& world = World::get();
  Lock lock(world.mutex);
  if (const int problem = world.enter(lock, "query_gid"); problem != 0) return errno = problem, -1;
  const auto& gids = of(context).on->gids;
  if (port != 1 || index < 0 || index >= 8) return errno = EINVAL, -1;
  *gid =
      static_cast<std::size_t>(index) < gids.size() ? gids[static_cast<std::size_t>(index)].gid : ibv_gid{};
  return 0;
}

FAKE_VERBS int _ibv_query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index,
                                 ibv_gid_entry* entry, std::uint32_t flags, std::size_t size) {
  World& world = World::get();
  Lock lock(world.mutex);
  if (const int problem = world.enter(lock, "query_gid_ex"); problem != 0) return problem;
  const auto& gids = of(context).on->gids;
  if (port != 1 || flags != 0 || size != sizeof *entry) return EINVAL;
  if (index >= gids.size()) return ENODATA;
  *entry = gids[index];
  return 0;
}

FAKE_VERBS int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  Context& asked = of(context);
  if (!asked.file.take()) return -1;
  World& world = World::get();
  const Lock lock(world.mutex);
  *event = asked.events.front();
  asked.events.pop_front();
  ++world.unacknowledged_events;
  return 0;
}

FAKE_VERBS void ibv_ack_async_event(ibv_async_event*) {
  World& world = World::get();
  const Lock lock(world.mutex);
  require(world.unacknowledged_events > 0, "more events of devices are acknowledged than there were");
  --world.unacknowledged_events;
}

// --- Domains and regions

FAKE_VERBS ibv_pd* ibv_alloc_pd(ibv_context* context) {
  World& world = World::get();
  Lock lock(world.mutex);
  if (const int problem = world.enter(lock, "alloc_pd"); problem != 0) return failed<ibv_pd>(problem);
  auto* domain = new Domain();
  domain->context = context;
  ++of(context).users;
  ++world.live["domain"];
  return domain;
}

FAKE_VERBS int ibv_dealloc_pd(ibv_pd* domain) {
  World& world = World::get();
  const Lock lock(world.mutex);
  auto* freed = static_cast<Domain*>(domain);
  require(freed->users == 0, "a protection domain is destroyed under ", freed->users,
          " regions, queue pairs and addresses");
  --of(domain->context).users;
  --world.live["domain"];
  delete freed;
  return 0;
}

namespace {

ibv_mr* add_region(World& world, ibv_pd* domain, void* address, std::size_t size, int access, int problem) {
  const int remote = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  if (problem == 0 && (access & remote) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0) problem = EINVAL;
  if (problem == 0 && size > world.limits.region_size) problem = EINVAL;
  if (problem != 0) return failed<ibv_mr>(problem);
  auto* region = new Region();
  region->context = domain->context;
  region->pd = domain;
  region->addr = address;
  region->length = size;
  region->access = access;
  region->lkey = world.next_key;
  region->rkey = world.next_key + 1;
  world.next_key += 2;
  world.regions[region->lkey] = region;
  ++static_cast<Domain*>(domain)->users;
  ++world.live["region"];
  return region;
}

}  // namespace

FAKE_VERBS ibv_mr* ibv_reg_mr(ibv_pd* domain, void* address, std::size_t size, int access) {
  World& world = World::get();
  Lock lock(world.mutex);
  int problem = world.enter(lock, "reg_mr");
  const auto* begin = static_cast<const std::byte*>(address);
  const auto* device_begin = static_cast<const std::byte*>(world.device_memory);
  const bool of_device = device_begin != nullptr && begin < device_begin + world.device_memory_size &&
                         device_begin < begin + size;
  if (problem == 0 && of_device) problem = EFAULT;  // as without a peer-memory module
  return add_region(world, domain, address, size, access, problem);
}

FAKE_VERBS ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* domain, std::uint64_t offset, std::size_t size,
                                     std::uint64_t address, int fd, int access) {
  World& world = World::get();
  Lock lock(world.mutex);
  int problem = world.enter(lock, "reg_dmabuf_mr");
  struct stat file {};
  const bool inside = ::fstat(fd, &file) == 0 && offset <= static_cast<std::uint64_t>(file.st_size) &&
                      size <= static_cast<std::uint64_t>(file.st_size) - offset;
  if (problem == 0 && (!inside || (address - offset) % 4096 != 0)) problem = EINVAL;
  auto* const begin = reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(address));
  return add_region(world, domain, begin, size, access, problem);
}

FAKE_VERBS int ibv_dereg_mr(ibv_mr* region) {
  World& world = World::get();
  Lock lock(world.mutex);
  auto* gone = static_cast<Region*>(region);
  const auto known = world.regions.find(gone->lkey);
  require(known != world.regions.end() && known->second == gone, "a region is deregistered twice");
  gone->leaving = true;
  world.wait_until_idle(lock, gone->busy);
  world.regions.erase(gone->lkey);
  --static_cast<Domain*>(gone->pd)->users;
  --world.live["region"];
  delete gone;
  return 0;
}

// --- Completion queues

FAKE_VERBS ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  World& world = World::get();
  Lock lock(world.mutex);
  if (const int problem = world.enter(lock, "create_comp_channel"); problem != 0) {
    return failed<ibv_comp_channel>(problem);
  }
  auto* channel = new Channel();
  channel->context = context;
  channel->fd = channel->file.fd();
  ++of(context).users;
  ++world.live["channel"];
  return channel;
}

FAKE_VERBS int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  World& world = World::get();
  const Lock lock(world.mutex);
  auto* gone = static_cast<Channel*>(channel);
  require(gone->users == 0, "a channel is destroyed under ", gone->users, " completion queues");
  --of(channel->context).users;
  --world.live["channel"];
  delete gone;
  return 0;
}

FAKE_VERBS ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* cookie, ibv_comp_channel* channel,
                                 int vector) {
  World& world = World::get();
  Lock lock(world.mutex);
  int problem = world.enter(lock, "create_cq");
  if (problem == 0 && (entries < 1 || entries > world.limits.completion_entries || vector != 0))
    problem = EINVAL;
  if (problem != 0) return failed<ibv_cq>(problem);
  auto* queue = new CompletionQueue();
  queue->context = context;
  queue->channel = channel;
  queue->cq_context = cookie;
  queue->cqe = entries;
  ++of(context).users;
  if (channel != nullptr) ++static_cast<Channel*>(channel)->users;
  ++world.live["completion_queue"];
  return queue;
}

FAKE_VERBS int ibv_destroy_cq(ibv_cq* queue) {
  World& world = World::get();
  const Lock lock(world.mutex);
  auto* gone = static_cast<CompletionQueue*>(queue);
  require(gone->users == 0, "a completion queue is destroyed under ", gone->users, " uses by queue pairs");
  require(gone->got == gone->acknowledged, "a completion queue is destroyed with ",
          gone->got - gone->acknowledged, " unacknowledged events");
  if (queue->channel != nullptr) {
    auto& channel = *static_cast<Channel*>(queue->channel);
    std::erase(channel.events, gone);
    --channel.users;
  }
  --of(queue->context).users;
  --world.live["completion_queue"];
  delete gone;
  return 0;
}

FAKE_VERBS int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** queue, void** cookie) {
  auto& asked = *static_cast<Channel*>(channel);
  if (!asked.file.take()) return -1;
  World& world = World::get();
  const Lock lock(world.mutex);
  if (asked.events.empty()) return errno = EAGAIN, -1;  // of a queue that is gone
  CompletionQueue* const with_event = asked.events.front();
  asked.events.pop_front();
  ++with_event->got;
  *queue = with_event;
  *cookie = with_event->cq_context;
  return 0;
}

FAKE_VERBS void ibv_ack_cq_events(ibv_cq* queue, unsigned count) {
  World& world = World::get();
  const Lock lock(world.mutex);
  auto& acknowledged = *static_cast<CompletionQueue*>(queue);
  acknowledged.acknowledged += count;
  require(acknowledged.acknowledged <= acknowledged.got, "more events are acknowledged than there were");
}

// --- Addresses

FAKE_VERBS ibv_ah* ibv_create_ah(ibv_pd* domain, ibv_ah_attr* attributes) {
  World& world = World::get();
  Lock lock(world.mutex);
  int problem = world.enter(lock, "create_ah");
  const Device* const target = world.device_of(attributes->grh.dgid);
  if (problem == 0 && target == nullptr) problem = ETIMEDOUT;
  if (problem == 0 &&
      (attributes->is_global == 0 || attributes->port_num != 1 || attributes->grh.sgid_index >= 4)) {
    problem = EINVAL;
  }
  if (problem != 0) return failed<ibv_ah>(problem);
  auto* address = new Address();
  address->context = domain->context;
  address->pd = domain;
  address->target = target;
  ++static_cast<Domain*>(domain)->users;
  ++world.live["address"];
  return address;
}

FAKE_VERBS int ibv_destroy_ah(ibv_ah* handle) {
  World& world = World::get();
  const Lock lock(world.mutex);
  auto* gone = static_cast<Address*>(handle);
  --static_cast<Domain*>(gone->pd)->users;
  --world.live["address"];
  delete gone;
  return 0;
}

// --- Texts

FAKE_VERBS const char* ibv_wc_status_str(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS:
      return "success";
    case IBV_WC_WR_FLUSH_ERR:
      return "flushed";
    case IBV_WC_RETRY_EXC_ERR:
      return "retries exceeded";
    case IBV_WC_REM_ACCESS_ERR:
      return "remote access refused";
    case IBV_WC_GENERAL_ERR:
      return "general error";
    default:
      return "another error";
  }
}

FAKE_VERBS const char* ibv_event_type_str(ibv_event_type event) {
  return event == IBV_EVENT_PORT_ERR      ? "port down"
         : event == IBV_EVENT_PORT_ACTIVE ? "port up"
                                          : "another event";
}

}  // namespace stagewire::fake_verbs
