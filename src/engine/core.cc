#include "engine/core.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <random>

#include "backend/builtin_backends.hpp"
#include "base/log.hpp"
#include "base/thread.hpp"
#include "control/host_address.hpp"
#include "engine/sinks.hpp"

namespace stagewire::engine {
namespace {

std::uint64_t random_instance_id() {
  std::random_device device;
  std::uint64_t id = 0;
  while (id == 0) id = (std::uint64_t{device()} << 32U) | device();
  return id;
}

// MORI's order: its variable, the kernel's boot id, the host name.
std::string node_id(const std::string& hostname) {
  if (const char* named = std::getenv("MORI_NODE_ID"); named != nullptr && *named != '\0') return named;
  std::string boot_id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot_id;
  return boot_id.empty() ? hostname : boot_id;
}

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

// How long a closing engine waits for the backends to let go of its transfers, and for its goodbyes to leave.
constexpr base::Duration kQuiet = std::chrono::seconds(5);
constexpr base::Duration kGoodbye = std::chrono::milliseconds(500);

// Each backend by name, and whether the user has named it.
std::vector<std::pair<std::string, bool>> wanted_backends(std::vector<std::string> names) {
  if (names.empty()) names.emplace_back("auto");
  std::vector<std::pair<std::string, bool>> wanted;
  for (const std::string& name : names) {
    if (name != "auto") {
      wanted.emplace_back(name, true);
      continue;
    }
    for (const auto& builtin : backend::builtin_backends()) {
      if (builtin.automatic) wanted.emplace_back(builtin.name, false);
    }
  }
  return wanted;
}

Status add_to_epoll(int epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) return base::system_error("epoll_ctl", errno);
  return {};
}

}  // namespace

Core::Core(CoreOptions options)
    : options_(std::move(options)),
      backends_(std::make_shared<BackendSet>()),
      events_(std::make_unique<Events>(*this)),
      control_events_(std::make_unique<ControlEvents>(*this)) {}

Core::~Core() {
  close();
}

Result<std::shared_ptr<Core>> Core::create(CoreOptions options) {
  std::shared_ptr<Core> core(new Core(std::move(options)));
  if (Status opened = core->open(); !opened) return opened.error();
  return core;
}

Status Core::open() {
  const IOEngineConfig& config = options_.engine;
  desc_.instance_id = random_instance_id();
  desc_.key = config.key.empty() ? base::text("stagewire-pid", getpid(), "-", std::hex, desc_.instance_id)
                                 : config.key;
  desc_.hostname = host_name();
  desc_.node_id = node_id(desc_.hostname);
  desc_.pid = getpid();

  backends_epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  loop_epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  loop_wake_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  driver_wake_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!backends_epoll_ || !loop_epoll_ || !loop_wake_ || !driver_wake_) {
    return base::system_error("open the engine's event descriptors", errno);
  }
  if (Status opened = open_backends(); !opened) return opened;

  // Where no backend leaves the host, "auto" may well be loopback.
  const bool same_host_only = std::all_of(backends_->begin(), backends_->end(), [](const auto& backend) {
    return backend->capabilities().same_host_only || backend->capabilities().same_process_only;
  });
  auto control = control::ControlPlane::create({.host = config.host,
                                                .port = config.port,
                                                .listen = config.listen,
                                                .same_host_only = same_host_only,
                                                .secret_key = config.secret_key});
  if (!control) return control.error();
  control_ = std::move(*control);
  if (config.listen && config.secret_key.empty() && !control::is_loopback(control_->host())) {
    base::log(LogLevel::warning, "engine", "the control port at ", control_->host(), ":", control_->port(),
              " is open to other hosts, and there is no secret_key to keep strangers out");
  }
  desc_.host = control_->host();
  desc_.port = control_->port();

  for (const int fd : {backends_epoll_.get(), loop_wake_.get(), control_->wait_fd()}) {
    if (Status added = add_to_epoll(loop_epoll_.get(), fd); !added) return added;
  }
  return {};
}

// Backends that listen do so where the control plane will.
Status Core::choose_host_for_listeners(BackendOptions& options) {
  const IOEngineConfig& config = options_.engine;
  for (const auto& builtin : backend::builtin_backends()) {
    const bool wanted =
        std::find(config.backends.begin(), config.backends.end(), builtin.name) != config.backends.end();
    hears_strangers_ = hears_strangers_ || (wanted && builtin.listens);
  }
  if (!hears_strangers_) return {};
  auto host = control::choose_listen_address(config.host, false);
  if (!host) return host.error();
  options.host = std::move(*host);
  base::log(LogLevel::warning, "engine", desc_.key, " takes engines of MORI-IO's at ", options.host,
            ": their protocol has no secret, and whoever reaches that port reaches what is registered");
  return {};
}

Status Core::open_backends() {
  const IOEngineConfig& config = options_.engine;
  BackendOptions options;
  options.engine_key = desc_.key;
  options.fault_spec = config.fault_spec;
  options.settings = config.backend_settings;
  if (Status chosen = choose_host_for_listeners(options); !chosen) return chosen;
  for (const auto& [name, must] : wanted_backends(config.backends)) {
    auto created = backend::create_backend(name, options);
    if (!created) {
      if (must) return created.error();
      base::log(LogLevel::debug, "engine", "backend ", name, " is not used: ", created.error().message());
      continue;
    }
    if ((*created)->wait_fd() >= 0) {
      if (Status added = add_to_epoll(backends_epoll_.get(), (*created)->wait_fd()); !added) return added;
      wait_fds_.push_back({(*created)->wait_fd(), POLLIN, 0});
    }
    const auto address = (*created)->address();
    desc_.addresses.push_back({name, std::vector<std::byte>(address.begin(), address.end())});
    backends_->push_back(std::move(*created));
  }
  wait_fds_.push_back({driver_wake_.get(), POLLIN, 0});
  return {};
}

void Core::set_pool(const MemoryDesc& pool, std::uint64_t lease_limit) {
  const std::lock_guard lock(mutex_);
  pool_ = pool;
  lease_limit_ = lease_limit;
}

Status Core::start() {
  {
    const std::lock_guard lock(progress_mutex_);
    for (auto& backend : *backends_) backend->arm();
  }
  if (!options_.engine.progress_thread) return {};
  return base::start_thread(thread_, base::text("the progress thread of engine ", desc_.key),
                            [this] { run_loop(); });
}

// Ends the transfers, waits until no byte of them moves, then takes leave: to a peer, our goodbye means that
// we write no more into what it granted.
void Core::close() {
  if (closed_.exchange(true)) return;
  const Error reason(ErrorCode::closed, base::text("engine ", desc_.key, " was closed"));
  if (end_transfers(reason)) {
    for (const PeerPtr& peer : peers()) send(*peer, wire::Bye{});
    static_cast<void>(wait_sent(base::Deadline::after(kGoodbye)));
  }
  for (const PeerPtr& peer : peers()) drop_peer(peer, reason);
  stopping_ = true;
  if (thread_.joinable()) {
    wake_loop();
    thread_.join();
  } else {
    run_work();  // hang-ups and byes that wait for the control plane
  }
  abandon_posted();
  const std::lock_guard lock(mutex_);
  timers_.clear();
  timer_places_.clear();
  dials_.clear();
  callers_.clear();
  arrived_.clear();
  peers_.clear();
  control_.reset();
}

// Whether all of them have quiesced.
bool Core::end_transfers(const Error& reason) {
  for (const PeerPtr& peer : peers()) fail_transfers_of(*peer, reason);
  base::Event quiet;
  {
    const std::lock_guard lock(transfers_.mutex);
    if (transfers_.posted.empty()) return true;
    transfers_.quiet_waiters.add(&quiet);
  }
  const bool all = wait(quiet, base::Deadline::after(kQuiet));
  const std::lock_guard lock(transfers_.mutex);
  transfers_.quiet_waiters.remove(&quiet);
  return all;
}

}  // namespace stagewire::engine
