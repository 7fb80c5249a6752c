#include "backends/rdma/rdma_backend.hpp"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>

#include "backend/builtin_backends.hpp"
#include "backends/rdma/open_ports.hpp"
#include "backends/rdma/rdma_endpoint.hpp"
#include "base/log.hpp"
#include "base/text.hpp"

namespace stagewire::backends {

Result<std::unique_ptr<Backend>> create_rdma(const BackendOptions& options) {
  return rdma::RdmaBackend::create(options);
}

namespace rdma {
namespace {

enum Watched : std::uint32_t { wake, timer, completions, device };

constexpr std::size_t kMostAtOnce = 64;  // completions of one port and queue in a look
constexpr base::Duration kMendTick = std::chrono::milliseconds(250);
constexpr base::Duration kFarewell = std::chrono::milliseconds(500);

Capabilities capabilities_of(const Shape& shape, const std::vector<std::shared_ptr<Port>>& ports) {
  Capabilities c;
  c.cpu_memory = true;
  c.gpu_memory = true;  // where the drivers of both devices agree; a registration says so when not
  c.max_request_size = std::numeric_limits<std::uint64_t>::max();  // cut into pieces
  for (const auto& port : ports)
    c.max_request_size = std::min(c.max_request_size, port->limits().region_size);
  c.max_message_size = shape.message_size;
  c.max_payload_size = shape.payloads > 0 ? shape.payload_size : 0;
  c.cost_us = 5;
  c.gb_per_s = 10;
  return c;
}

Shape shape_of(const BackendOptions& options) {
  Shape shape;
  shape.message_size =
      static_cast<std::uint32_t>(std::clamp<std::size_t>(options.message_ring_size / 8, 256, 16 * 1024));
  shape.payload_size = static_cast<std::uint32_t>(std::min<std::size_t>(options.payload_slot_size, 1U << 20));
  shape.payloads = static_cast<std::uint32_t>(std::min<std::size_t>(options.payload_slots, 4096));
  shape.buffers = shape.payloads + 64;
  return shape;
}

// What happens when nobody listens any more.
class Nobody final : public EventSink {
 public:
  PeerToken on_peer_arrived(std::span<const std::byte>, std::string_view) override { return 0; }
  void on_completion(Completion&&) override {}
  void on_notification(PeerToken, std::uint32_t) override {}
  void on_message(PeerToken, std::span<const std::byte>, MessagePayload) override {}
  void on_peer_lost(PeerToken, const Error&) override {}
};

}  // namespace

Result<std::unique_ptr<Backend>> RdmaBackend::create(const BackendOptions& options) {
  auto settings = Settings::from(options);
  if (!settings) return settings.error();
  auto ports = open_ports(*settings);
  if (!ports) return ports.error();
  std::unique_ptr<RdmaBackend> backend(new RdmaBackend(options, std::move(*settings), std::move(*ports)));
  if (Status ok = backend->open(); !ok) return ok.error();
  return std::unique_ptr<Backend>(std::move(backend));
}

RdmaBackend::RdmaBackend(const BackendOptions& options, Settings settings,
                         std::vector<std::shared_ptr<Port>> ports)
    : engine_key_(options.engine_key),
      settings_(std::move(settings)),
      ports_(std::move(ports)),
      capabilities_(capabilities_of(shape_of(options), ports_)),
      regions_(std::make_shared<RegionTable>(random_number())),
      host_(new LinkHost{settings_, ports_, greeters_, packed_address_, shape_of(options), router_, *regions_,
                         completions_, awaiting_sent_, attention_, greetings_, worker_, wake_}) {}

Status RdmaBackend::open() {
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return base::system_error("epoll_create1", errno);
  timer_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer_) return base::system_error("timerfd_create", errno);
  if (Status ok = wake_.open(); !ok) return ok;
  if (Status ok = watch(wake_.fd(), Watched::wake); !ok) return ok;
  if (Status ok = watch(timer_.get(), Watched::timer); !ok) return ok;
  address_.instance = regions_->instance();
  address_.secret = random_number();
  for (const auto& port : ports_) {
    if (Status ok = watch(port->completion_fd(), Watched::completions); !ok) return ok;
    if (Status ok = watch(port->async_fd(), Watched::device); !ok) return ok;
    auto greeter = Greeter::create(port);
    if (!greeter) return greeter.error();
    address_.rails.push_back(port->rail());
    address_.rails.back().greeter = (*greeter)->number();
    greeters_.push_back(std::move(*greeter));
  }
  packed_address_ = pack(address_);
  return {};
}

std::string RdmaBackend::describe() const {
  std::string text;
  for (const auto& port : ports_) text += (text.empty() ? "" : "; ") + port->describe();
  return text;
}

// Edge-triggered: reported once; take_events() goes on until there is nothing left.
Status RdmaBackend::watch(int fd, std::uint32_t what) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  event.data.u32 = what;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
  return base::system_error("epoll_ctl(ADD)", errno);
}

RdmaBackend::~RdmaBackend() {
  leave_all();
}

// Says goodbye over every link that is still up, and waits a moment for its delivery.
void RdmaBackend::leave_all() {
  Nobody nobody;
  for (const auto& link : all_links()) link->close();
  const base::Deadline deadline = base::Deadline::after(kFarewell);
  for (;;) {
    progress(nobody, false);
    const auto left = all_links();
    if (left.empty() && greetings_are_out()) return;
    if (!deadline.passed(base::steady_clock().now())) continue;
    for (const auto& link : left) link->fail(Error(ErrorCode::closed, "the engine was closed"));
    return;
  }
}

// The farewells are datagrams that the worker posts.
bool RdmaBackend::greetings_are_out() {
  return greetings_.load() == 0 &&
         std::all_of(greeters_.begin(), greeters_.end(), [](const auto& greeter) { return greeter->idle(); });
}

Status RdmaBackend::reaches(std::span<const std::byte> peer_address) const {
  const auto peer = unpack_address(peer_address);
  if (!peer) return peer.error();
  if (peer->version != kFormatVersion) {
    return base::error(ErrorCode::unsupported, "the peer speaks version ", peer->version,
                       " of the rdma format, we speak ", kFormatVersion);
  }
  for (const Rail& theirs : peer->rails) {
    for (const auto& ours : ports_) {
      if (ours->ethernet() == theirs.ethernet) return {};
    }
  }
  return base::error(ErrorCode::unsupported, "our RDMA devices are of ",
                     ports_[0]->ethernet() ? "RoCE" : "InfiniBand", ", the peer's are not");
}

Result<std::unique_ptr<Registration>> RdmaBackend::register_region(const MemoryRegion& region,
                                                                   Access access) {
  return RdmaRegistration::create(regions_, ports_, region, access);
}

Result<std::unique_ptr<Endpoint>> RdmaBackend::connect(std::span<const std::byte> peer_address) {
  if (Status ok = reaches(peer_address); !ok) return ok.error();
  auto peer = unpack_address(peer_address);
  if (!peer) return peer.error();
  auto link = std::make_shared<Link>(*host_, std::move(*peer));
  {
    const std::lock_guard lock(links_mutex_);
    links_[link->id()] = link;
  }
  link->start();
  return std::unique_ptr<Endpoint>(std::make_unique<RdmaEndpoint>(std::move(link)));
}

// --- Progress

std::size_t RdmaBackend::progress(EventSink& sink, bool messages_only) {
  std::size_t events = 0;
  if (!messages_only) take_events();
  for (std::size_t port = 0; port < ports_.size(); ++port) events += poll_port(port, sink);
  bool tick = false;
  if (!messages_only) {
    const base::TimePoint now = base::steady_clock().now();
    tick = now >= next_tick_;
  }
  if (tick || attention_.load(std::memory_order_acquire)) events += tend_links(sink, tick || !messages_only);
  if (greeter_failed_) tend_greeters();
  events += completions_.deliver(sink);
  return events;
}

void RdmaBackend::take_events() {
  std::array<epoll_event, 64> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    switch (events[static_cast<std::size_t>(i)].data.u32) {
      case Watched::completions:
        for (const auto& port : ports_) port->take_events();
        break;
      case Watched::device:
        take_device_events();
        break;
      case Watched::timer: {
        // Only a timer that is read goes on.
        std::uint64_t ticks = 0;
        if (::read(timer_.get(), &ticks, sizeof ticks) < 0) next_tick_ = {};
        break;
      }
      default:
        break;  // what it announces is looked at anyway
    }
  }
  wake_.forget();
}

void RdmaBackend::take_device_events() {
  for (std::size_t port = 0; port < ports_.size(); ++port) {
    const Port::Change change = ports_[port]->take_async_events();
    if (!change.port_down && !change.port_up && !change.fatal) continue;
    for (const auto& link : all_links()) link->on_port(port, change.port_up && !change.fatal);
  }
}

std::size_t RdmaBackend::poll_port(std::size_t port, EventSink& sink) {
  std::array<ibv_wc, kMostAtOnce> completions;
  std::size_t events = 0;
  for (const bool of_sent : {true, false}) {
    const std::size_t count = ports_[port]->poll(of_sent, completions.data(), completions.size());
    for (std::size_t i = 0; i < count; ++i) {
      const ibv_wc& completion = completions[i];
      Greeter& greeter = *greeters_[port];
      if (completion.qp_num == greeter.number()) {
        if (completion.status != IBV_WC_SUCCESS) greeter_failed_ = true;
        if (of_sent) {
          greeter.on_sent(completion);
        } else {
          handle_greeting(greeter.on_received(completion));
          greeter.take_back(completion);
        }
        continue;
      }
      const Router<Link>::Route route = router_.find(port, completion.qp_num);
      if (!route.owner) continue;
      if (of_sent) {
        route.owner->on_sent(completion, route.pair, events);
      } else {
        route.owner->on_received(completion, sink, events);
      }
    }
  }
  return events;
}

void RdmaBackend::handle_greeting(std::span<const std::byte> bytes) {
  const auto greeting = unpack_greeting(bytes);
  if (!greeting) return;  // anybody may send datagrams
  if (const auto* call = std::get_if<Call>(&*greeting)) return handle_call(*call);
  if (const auto* answer = std::get_if<Answer>(&*greeting)) {
    if (const auto link = find_link(answer->link)) link->on_answer(*answer);
  } else if (const auto* refusal = std::get_if<Refusal>(&*greeting)) {
    if (const auto link = find_link(refusal->link)) link->on_refusal(*refusal);
  } else if (const auto* probe = std::get_if<Probe>(&*greeting)) {
    if (const auto link = find_link(probe->link)) link->on_probe(*probe);
  } else if (const auto* reached = std::get_if<Reached>(&*greeting)) {
    if (const auto link = find_link(reached->link)) link->on_reached();
  } else if (const auto* farewell = std::get_if<Farewell>(&*greeting)) {
    if (const auto link = find_link(farewell->link)) {
      link->fail(Error(ErrorCode::unavailable, "the peer has closed"));
    }
  }
}

void RdmaBackend::handle_call(const Call& call) {
  if (call.secret != address_.secret) return;  // for who was here before us, or a stranger's
  const auto* data = reinterpret_cast<const std::byte*>(call.address.data());
  auto caller = unpack_address({data, call.address.size()});
  const auto within = [](const std::vector<std::uint32_t>& places, std::size_t count) {
    return std::all_of(places.begin(), places.end(), [&](std::uint32_t place) { return place < count; });
  };
  const std::size_t pairs = call.end.pairs.size();
  const bool sane = caller && call.version == kFormatVersion && pairs >= 2 && call.rails.size() == pairs &&
                    call.caller_rails.size() == pairs && within(call.rails, ports_.size()) &&
                    within(call.caller_rails, caller->rails.size());
  if (!sane) return;
  const std::pair<std::uint64_t, std::uint64_t> name{caller->instance, call.end.link};
  std::shared_ptr<Link> link;
  {
    const std::lock_guard lock(links_mutex_);
    const auto known = called_.find(name);
    if (known != called_.end()) {
      link = links_[known->second];
    } else if (called_.size() >= kMaxCalledLinks) {
      if (const auto held = refused_log_.admit(base::steady_clock().now())) {
        base::log(LogLevel::warning, "rdma", engine_key_, ": there are ", called_.size(), " peers already; ",
                  *held, " such lines held back");
      }
      return;
    } else {
      link = std::make_shared<Link>(*host_, std::move(*caller), call);
      links_[link->id()] = link;
      called_[name] = link->id();
    }
  }
  link->on_call(call);
}

std::shared_ptr<Link> RdmaBackend::find_link(std::uint64_t id) {
  const std::lock_guard lock(links_mutex_);
  const auto found = links_.find(id);
  return found == links_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<Link>> RdmaBackend::all_links() {
  const std::lock_guard lock(links_mutex_);
  std::vector<std::shared_ptr<Link>> all;
  for (const auto& [id, link] : links_) all.push_back(link);
  return all;
}

std::size_t RdmaBackend::tend_links(EventSink& sink, bool tick) {
  attention_.store(false, std::memory_order_release);
  std::size_t events = 0;
  base::Duration interval = base::Duration::max();
  const base::TimePoint now = base::steady_clock().now();
  for (const auto& link : all_links()) {
    if (tick) link->tick(now);
    if (link->serve(sink, events)) {
      const std::lock_guard lock(links_mutex_);
      links_.erase(link->id());
      called_.erase({link->peer().instance, link->peer_link()});
    } else {
      interval = std::min(interval, link->tick_interval());
    }
  }
  set_timer(interval);
  next_tick_ = interval == base::Duration::max() ? base::TimePoint::max() : now + interval;
  return events;
}

void RdmaBackend::tend_greeters() {
  const base::TimePoint now = base::steady_clock().now();
  greeter_failed_ = false;
  for (const auto& greeter : greeters_) {
    if (greeter->mend(now) == Greeter::Health::good) continue;
    greeter_failed_ = true;
    set_timer(std::min(timer_interval_, kMendTick));
    next_tick_ = std::min(next_tick_, now + kMendTick);
  }
}

void RdmaBackend::set_timer(base::Duration interval) {
  if (interval == timer_interval_) return;
  timer_interval_ = interval;
  itimerspec when{};
  if (interval != base::Duration::max()) {
    when.it_interval.tv_sec = when.it_value.tv_sec = static_cast<time_t>(interval.count() / 1'000'000'000);
    when.it_interval.tv_nsec = when.it_value.tv_nsec = static_cast<long>(interval.count() % 1'000'000'000);
  }
  ::timerfd_settime(timer_.get(), 0, &when, nullptr);
}

bool RdmaBackend::arm() {
  wake_.arm();
  bool idle = completions_.empty() && !attention_.load(std::memory_order_acquire);
  for (const auto& port : ports_) {
    idle = port->arm(!wants_everything_.load(), awaiting_sent_.load() > 0) && idle;
  }
  return idle;
}

}  // namespace rdma
}  // namespace stagewire::backends
