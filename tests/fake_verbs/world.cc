#include "fake_verbs/world.hpp"

#include <arpa/inet.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace stagewire::fake_verbs {

void violation(const std::string& text) {
  std::fprintf(stderr, "fake verbs: %s\n", text.c_str());
  std::abort();
}

EventFile::EventFile() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE)) {
  require(fd_ >= 0, "eventfd: errno ", errno);
}

EventFile::~EventFile() {
  ::close(fd_);
}

void EventFile::announce() {
  const std::uint64_t one = 1;
  require(::write(fd_, &one, sizeof one) == sizeof one, "writing an eventfd: errno ", errno);
}

bool EventFile::take() {
  std::uint64_t one = 0;
  return ::read(fd_, &one, sizeof one) == sizeof one;
}

namespace {

ibv_gid_entry gid_entry(int index, std::uint32_t place) {
  ibv_gid_entry entry{};
  entry.gid_index = place;
  entry.port_num = 1;
  entry.gid_type = place % 2 == 0 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2;
  const auto last = static_cast<std::uint8_t>(index + 1);
  char text[INET6_ADDRSTRLEN];
  std::snprintf(text, sizeof text, place < 2 ? "fe80::77:%d" : "::ffff:10.77.0.%d", last);
  require(::inet_pton(AF_INET6, text, entry.gid.raw) == 1, "no GID: ", text);
  return entry;
}

}  // namespace

World::World() {
  constexpr int kMostDevices = 8;
  for (int index = 0; index < kMostDevices; ++index) {
    Device& device = devices.emplace_back();
    device.index = index;
    device.node_type = IBV_NODE_CA;
    device.transport_type = IBV_TRANSPORT_IB;
    std::snprintf(device.name, sizeof device.name, "fake%d", index);
    for (std::uint32_t place = 0; place < device.gids.size(); ++place)
      device.gids[place] = gid_entry(index, place);
  }
}

// Never destroyed: a program may end while backends are still there.
World& World::get() {
  static World* const world = new World;
  return *world;
}

int World::enter(Lock& lock, const char* function, QueuePair* pair) {
  Function& entered = functions[function];
  ++entered.calls;
  const bool fails = entered.fail_in > 0 && --entered.fail_in == 0;
  if (fails && entered.always) entered.fail_in = 1;
  const int problem = entered.problem;
  if (entered.held) {
    ++entered.waiting;
    if (pair != nullptr) ++pair->callers;
    changed.wait(lock, [&] { return !entered.held; });
    if (pair != nullptr) --pair->callers;
    --entered.waiting;
  }
  return fails ? problem : 0;
}

Device* World::device_of(const ibv_gid& gid) {
  for (int index = 0; index < device_count; ++index) {
    Device& device = devices[static_cast<std::size_t>(index)];
    for (const ibv_gid_entry& entry : device.gids) {
      if (std::equal(std::begin(entry.gid.raw), std::end(entry.gid.raw), std::begin(gid.raw))) return &device;
    }
  }
  return nullptr;
}

Region* World::region_of(std::uint32_t local_key, const ibv_pd* domain) {
  const auto found = regions.find(local_key);
  require(found != regions.end(), "a request uses the local key ", local_key,
          ", which nothing is registered with");
  require(found->second->pd == domain, "a request uses the local key ", local_key,
          " of another protection domain");
  require(!found->second->leaving, "a region is deregistered while a request uses it");
  return found->second;
}

void World::check_segments(const ibv_pd* domain, const std::vector<ibv_sge>& segments, bool written) {
  for (const ibv_sge& segment : segments) {
    if (segment.length == 0) continue;
    const Region* const region = region_of(segment.lkey, domain);
    require(region->holds(segment.addr, segment.length), "a segment of ", segment.length, " bytes at ",
            segment.addr, " is not inside of its registration of ", region->length, " bytes at ",
            region->addr);
    require(!written || (region->access & IBV_ACCESS_LOCAL_WRITE) != 0,
            "a segment is to be written whose registration does not allow that");
  }
}

// --- Completions

void World::complete(CompletionQueue& queue, const CompletionQueue::Entry& entry, bool urgent) {
  require(queue.entries.size() < static_cast<std::size_t>(queue.cqe), "a completion queue of ", queue.cqe,
          " entries overflows");
  queue.entries.push_back(entry);
  const bool wakes =
      queue.armed == CompletionQueue::Armed::any ||
      (queue.armed == CompletionQueue::Armed::urgent && (urgent || entry.completion.status != 0));
  if (!wakes || queue.channel == nullptr) return;
  queue.armed = CompletionQueue::Armed::no;
  auto& channel = *static_cast<Channel*>(queue.channel);
  channel.events.push_back(&queue);
  channel.file.announce();
}

void World::complete_send(QueuePair& pair, const Request& request, ibv_wc_status status,
                          std::uint32_t vendor_error) {
  ++pair.unsignalled;
  if (status == IBV_WC_SUCCESS && !request.signalled) return;
  CompletionQueue::Entry entry{};
  entry.of_send = true;
  entry.places = std::exchange(pair.unsignalled, 0);
  entry.completion.wr_id = request.id;
  entry.completion.status = status;
  entry.completion.vendor_err = vendor_error;
  entry.completion.qp_num = pair.qp_num;
  entry.completion.opcode = request.opcode == IBV_WR_SEND        ? IBV_WC_SEND
                            : request.opcode == IBV_WR_RDMA_READ ? IBV_WC_RDMA_READ
                                                                 : IBV_WC_RDMA_WRITE;
  complete(*static_cast<CompletionQueue*>(pair.send_cq), entry, false);
}

void World::complete_receive(QueuePair& pair, const Receive& receive, ibv_wc_status status,
                             std::uint64_t size, bool urgent, std::uint32_t from) {
  CompletionQueue::Entry entry{};
  entry.places = 1;
  entry.completion.wr_id = receive.id;
  entry.completion.status = status;
  entry.completion.opcode = IBV_WC_RECV;
  entry.completion.byte_len = static_cast<std::uint32_t>(size);
  entry.completion.qp_num = pair.qp_num;
  entry.completion.src_qp = from;
  entry.completion.wc_flags = pair.qp_type == IBV_QPT_UD ? IBV_WC_GRH : 0;
  complete(*static_cast<CompletionQueue*>(pair.recv_cq), entry, urgent);
}

void World::to_error(QueuePair& pair) {
  pair.state = IBV_QPS_ERR;
  pair.gives_up.reset();
  for (const Request& request : std::exchange(pair.sends, {}))
    complete_send(pair, request, IBV_WC_WR_FLUSH_ERR);
  for (const Receive& receive : std::exchange(pair.receives, {})) {
    complete_receive(pair, receive, IBV_WC_WR_FLUSH_ERR, 0);
  }
  something_changed();
}

// What a device does on the way to RESET: nothing that was posted before is heard of any more.
void World::forget_work(QueuePair& pair) {
  pair.sends.clear();
  pair.receives.clear();
  pair.sends_used = pair.receives_used = pair.unsignalled = 0;
  pair.gives_up.reset();
  for (ibv_cq* queue : {pair.send_cq, pair.recv_cq}) {
    std::erase_if(static_cast<CompletionQueue*>(queue)->entries, [&](const CompletionQueue::Entry& entry) {
      return entry.completion.qp_num == pair.qp_num;
    });
  }
}

void World::wait_until_idle(Lock& lock, const int& busy) {
  changed.wait(lock, [&] { return busy == 0; });
}

}  // namespace stagewire::fake_verbs
