#include "backends/rdma/mori/mori_backend.hpp"

#include <arpa/inet.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>

#include "backend/builtin_backends.hpp"
#include "backends/rdma/open_ports.hpp"
#include "base/log.hpp"
#include "base/text.hpp"

namespace stagewire::backends {

Result<std::unique_ptr<Backend>> create_mori(const BackendOptions& options) {
  return rdma::mori::MoriBackend::create(options);
}

namespace rdma::mori {
namespace {

constexpr std::size_t kMostAtOnce = 64;
// MORI-IO's engines without RDMA say this one.
constexpr int kPortOfNobody = 1;

Result<EngineDesc> engine_at(std::span<const std::byte> address) {
  auto desc = EngineDesc::unpack(address);
  if (!desc) return desc.error();
  in_addr parsed{};
  if (!desc->key.empty() && desc->port > kPortOfNobody &&
      ::inet_pton(AF_INET, desc->host.c_str(), &parsed) == 1)
    return desc;
  return base::error(ErrorCode::unsupported, "engine '", desc->key, "' is not reached at ", desc->host, ":",
                     desc->port, ": an engine of MORI-IO's with RDMA has an IPv4 address and a port there");
}

class MoriRemoteRegion final : public RemoteRegion {
 public:
  MoriRemoteRegion(std::shared_ptr<Hub> hub, std::shared_ptr<Import> import)
      : hub_(std::move(hub)), import_(std::move(import)) {}
  std::uint64_t size() const override { return import_->desc.size; }
  std::optional<Status> status() const override {
    const std::lock_guard lock(hub_->mutex);
    return import_->status;
  }
  const std::byte* mapping() const override { return nullptr; }
  const Import& import() const { return *import_; }

 private:
  const std::shared_ptr<Hub> hub_;
  const std::shared_ptr<Import> import_;
};

}  // namespace

// --- Our end of a connection

MoriEndpoint::~MoriEndpoint() {
  const std::lock_guard lock(hub_->mutex);
  for (const auto& entry : connections_)
    entry.second->end(Error(ErrorCode::closed, "the endpoint was closed"));
}

Result<std::unique_ptr<RemoteRegion>> MoriEndpoint::import(std::span<const std::byte> remote_key) {
  auto desc = MemoryDesc::unpack(remote_key);
  if (!desc) return desc.error();
  if (desc->engine_key != peer_.key || desc->size == 0) {
    return base::error(ErrorCode::not_found, "region ", desc->id, " of ", desc->engine_key, " (", desc->size,
                       " bytes) is none of ", peer_.key);
  }
  const std::lock_guard lock(hub_->mutex);
  const Places places{{}, {desc->device_id, desc->kind, desc->numa_node}};
  std::shared_ptr<Connection>& connection = connections_[places];
  if (!connection || connection->ended()) {
    connection = std::make_shared<Connection>(hub_, peer_, places);
    connection->start();
  }
  auto import = std::make_shared<Import>();
  import->desc = std::move(*desc);
  import->connection = connection;
  connection->import(import);
  hub_->completions.nudge();
  return std::unique_ptr<RemoteRegion>(std::make_unique<MoriRemoteRegion>(hub_, std::move(import)));
}

Result<Posted> MoriEndpoint::post(const WorkRequest& request) {
  const auto* remote = dynamic_cast<const MoriRemoteRegion*>(request.remote);
  const std::lock_guard lock(hub_->mutex);
  const auto connection = remote == nullptr ? nullptr : remote->import().connection.lock();
  const bool ours = connection && std::any_of(connections_.begin(), connections_.end(),
                                              [&](const auto& entry) { return entry.second == connection; });
  if (!ours) {
    const bool ended = remote != nullptr && remote->import().status && !*remote->import().status;
    if (ended) return remote->import().status->error();
    return base::error(ErrorCode::invalid_argument, "the region is not one of ", peer_.key);
  }
  return connection->post(request, remote->import());
}

Result<Posted> MoriEndpoint::send(std::span<const std::byte> message, const PayloadSlot&, bool) {
  return base::error(ErrorCode::unsupported, peer_.key, ", an engine of MORI-IO's, takes no message (of ",
                     message.size(), " bytes)");
}

// --- The backend

Result<std::unique_ptr<Backend>> MoriBackend::create(const BackendOptions& options) {
  auto settings = Settings::from(options);
  if (!settings) return settings.error();
  auto ports = open_ports(*settings);
  if (!ports) return ports.error();
  std::unique_ptr<MoriBackend> backend(new MoriBackend(options, std::move(*settings), std::move(*ports)));
  if (Status ok = backend->open(options); !ok) return ok.error();
  return std::unique_ptr<Backend>(std::move(backend));
}

MoriBackend::MoriBackend(const BackendOptions& options, Settings settings,
                         std::vector<std::shared_ptr<Port>> ports)
    : settings_(std::move(settings)),
      ports_(std::move(ports)),
      hub_(new Hub{options.engine_key, settings_, ports_, completions_, worker_, {}, {}, {}, {}, {}}),
      acceptor_(*hub_) {
  capabilities_.cpu_memory = true;
  capabilities_.gpu_memory = true;
  capabilities_.max_request_size = std::numeric_limits<std::uint64_t>::max();
  for (const auto& port : ports_) {
    capabilities_.max_request_size = std::min(capabilities_.max_request_size, port->limits().region_size);
  }
  capabilities_.cost_us = 10;
  capabilities_.gb_per_s = 10;
}

Status MoriBackend::open(const BackendOptions& options) {
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return base::system_error("epoll_create1", errno);
  timer_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer_) return base::system_error("timerfd_create", errno);
  if (Status ok = wake_.open(); !ok) return ok;
  const std::string host = options.host.empty() ? "127.0.0.1" : options.host;
  auto control =
      Control::create(host, settings_.mori_port,
                      [this](Control::Question question, const Message& m) { acceptor_.asked(question, m); });
  if (!control) return control.error();
  hub_->control = std::move(*control);
  for (const int fd : {wake_.fd(), timer_.get(), hub_->control->fd()}) {
    if (Status ok = watch(fd, EPOLLIN); !ok) return ok;
  }
  for (const auto& port : ports_) {
    for (const int fd : {port->completion_fd(), port->async_fd()}) {
      if (Status ok = watch(fd, EPOLLIN); !ok) return ok;
    }
  }
  EngineDesc desc;
  desc.key = options.engine_key;
  desc.host = host;
  desc.port = hub_->control->port();
  desc.pid = ::getpid();
  packed_address_ = desc.pack();
  base::log(LogLevel::debug, "mori", options.engine_key, " listens at ", host, ":", desc.port);
  return {};
}

MoriBackend::~MoriBackend() {
  worker_.cancel(hub_.get());
  const std::lock_guard lock(hub_->mutex);
  acceptor_.end_all(Error(ErrorCode::closed, "the engine was closed"));
  hub_->control.reset();
}

std::string MoriBackend::describe() const {
  std::string text;
  for (const auto& port : ports_) text += (text.empty() ? "" : "; ") + port->name();
  return text;
}

Status MoriBackend::watch(int fd, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
  return base::system_error("epoll_ctl(ADD)", errno);
}

Status MoriBackend::reaches(std::span<const std::byte> peer_address) const {
  const auto peer = engine_at(peer_address);
  return peer ? Status() : Status(peer.error());
}

Result<std::unique_ptr<Registration>> MoriBackend::register_region(const MemoryRegion& region,
                                                                   Access access) {
  return Region::create(hub_, region, access);
}

Result<std::unique_ptr<Endpoint>> MoriBackend::connect(std::span<const std::byte> peer_address) {
  auto peer = engine_at(peer_address);
  if (!peer) return peer.error();
  return std::unique_ptr<Endpoint>(std::make_unique<MoriEndpoint>(hub_, std::move(*peer)));
}

// --- Progress

std::size_t MoriBackend::progress(EventSink& sink, bool messages_only) {
  std::deque<Arrivals::Event> arrived;
  {
    const std::lock_guard lock(hub_->mutex);
    if (!messages_only) take_events();
    for (std::size_t port = 0; port < ports_.size(); ++port) poll_port(port);
    if (!messages_only) {
      const base::TimePoint now = base::steady_clock().now();
      hub_->control->progress(now);
      acceptor_.tick(now);
      keep_time();
    }
    arrived = hub_->arrivals.take();
  }
  return hub_->arrivals.tell(arrived, sink) + completions_.deliver(sink);
}

void MoriBackend::take_events() {
  std::uint64_t ticks = 0;
  if (::read(timer_.get(), &ticks, sizeof ticks) < 0) ticks = 0;  // none has passed
  for (const auto& port : ports_) {
    port->take_events();
    static_cast<void>(port->take_async_events());  // a port that is down fails its queue pairs
  }
  wake_.forget();
}

void MoriBackend::poll_port(std::size_t port) {
  std::array<ibv_wc, kMostAtOnce> completions;
  for (const bool of_sent : {true, false}) {
    const std::size_t count = ports_[port]->poll(of_sent, completions.data(), completions.size());
    for (std::size_t i = 0; i < count; ++i) {
      const auto route = hub_->router.find(port, completions[i].qp_num);
      if (!route.owner) continue;
      if (of_sent) {
        route.owner->on_sent(completions[i], route.pair);
      } else {
        route.owner->on_received(completions[i], route.pair);
      }
    }
  }
}

// A clock only while somebody has to be given up in time, or looked after.
void MoriBackend::keep_time() {
  base::Duration interval{0};
  if (acceptor_.has_pairs()) interval = Acceptor::kTick;
  if (hub_->control->waits()) interval = Control::kTick;
  if (interval == interval_) return;
  interval_ = interval;
  itimerspec when{};
  when.it_interval.tv_sec = when.it_value.tv_sec = static_cast<time_t>(interval.count() / 1'000'000'000);
  when.it_interval.tv_nsec = when.it_value.tv_nsec = static_cast<long>(interval.count() % 1'000'000'000);
  ::timerfd_settime(timer_.get(), 0, &when, nullptr);
}

bool MoriBackend::arm() {
  wake_.arm();
  bool idle = completions_.empty();
  {
    const std::lock_guard lock(hub_->mutex);
    idle = idle && !hub_->arrivals.waiting();
  }
  for (const auto& port : ports_) idle = port->arm(false, true) && idle;
  return idle;
}

}  // namespace rdma::mori
}  // namespace stagewire::backends
