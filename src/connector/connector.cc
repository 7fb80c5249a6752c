// MoriTransferEngineConnector: checks, names and look-ups; the sending side is Publications, the receiving
// side Subscriptions.
#include "stagewire/connector.hpp"

#include <algorithm>
#include <map>

#include "base/log.hpp"
#include "base/text.hpp"
#include "connector/key_name.hpp"
#include "connector/publications.hpp"
#include "connector/space.hpp"
#include "connector/subscriptions.hpp"

namespace stagewire {
namespace connector {
namespace {

Result<RouteWish> parse_route(const std::string& route) {
  if (route == "auto") return RouteWish::automatic;
  if (route == "eager") return RouteWish::eager;
  if (route == "lease") return RouteWish::lease;
  if (route == "read") return RouteWish::read;
  if (route == "write") return RouteWish::write;
  return base::error(ErrorCode::invalid_argument, "route: ", route,
                     " is none of auto, eager, lease, read, write");
}

// The backends that a backend_type allows. `auto` is what the engine finds by itself.
Result<std::vector<std::string>> backends_of(const ConnectorConfig& config) {
  if (!config.fault_spec.empty()) return std::vector<std::string>{"fault"};
  for (const std::string_view name : {"auto", "shm", "rdma", "xgmi", "cuda_ipc", "ucx"}) {
    if (name != config.backend_type) continue;
    std::vector<std::string> names{config.backend_type};
    if (config.backend_settings.contains("mori_port")) names.emplace_back("mori");
    return names;
  }
  return base::error(ErrorCode::invalid_argument, "backend_type: ", config.backend_type,
                     " is none of auto, shm, rdma, xgmi, cuda_ipc, ucx");
}

Status check(const ConnectorConfig& config) {
  if (config.memory_pool_device != "cpu") {
    return base::error(ErrorCode::unsupported, "memory_pool_device: ", config.memory_pool_device,
                       ": this build keeps its pool in host memory only; use cpu");
  }
  if (config.memory_pool_size == 0) {
    return base::error(ErrorCode::invalid_argument, "memory_pool_size must not be 0");
  }
  if (config.lease_share < 0 || config.lease_share > 1) {
    return base::error(ErrorCode::invalid_argument, "lease_share: ", config.lease_share,
                       " is not between 0 and 1");
  }
  if (config.original_timeout_s <= 0) {
    return base::error(ErrorCode::invalid_argument, "original_timeout_s: ", config.original_timeout_s,
                       " is not above 0");
  }
  if (config.buffer_ttl_s < 0) {
    return base::error(ErrorCode::invalid_argument, "buffer_ttl_s: ", config.buffer_ttl_s, " is negative");
  }
  return {};
}

// Without a look at the clock when nothing is to be waited for.
base::Deadline deadline_after(Milliseconds timeout) {
  if (timeout.count() <= 0) return base::Deadline::at(base::TimePoint::min());
  return base::Deadline::after(timeout);
}

class ConnectorImpl final : public Connector, private engine::Handler {
 public:
  static Result<std::unique_ptr<Connector>> create(const ConnectorConfig& config);
  explicit ConnectorImpl(const ConnectorConfig& config) { config_ = config; }
  ~ConnectorImpl() override { ConnectorImpl::close(); }

  Result<PutResult> put(std::string_view from, std::string_view to, std::string_view key,
                        std::span<const std::byte> bytes, const PutOptions& options) override {
    return put_source(from, to, key, source_of(bytes), options);
  }
  Result<PutResult> put(std::string_view from, std::string_view to, std::string_view key,
                        const TensorView& tensor, const PutOptions& options) override {
    return put_source(from, to, key, source_of(tensor), options);
  }
  Result<PutResult> put(std::string_view from, std::string_view to, std::string_view key, const Value& object,
                        const PutOptions& options) override {
    return put_source(from, to, key, source_of(object), options);
  }
  Result<PutResult> put(std::string_view from, std::string_view to, std::string_view key, PoolBuffer buffer,
                        const PutOptions& options) override;
  Result<PoolBuffer> allocate(std::size_t size, const PutOptions& options) override;
  Status allocate_async(std::string_view from, std::string_view to, std::string_view key, std::size_t size,
                        const PutOptions& options, std::function<void(Result<PoolBuffer>)> callback) override;
  Result<Delivery> get(std::string_view from, std::string_view to, std::string_view key,
                       const GetOptions& options) override;
  Status get_async(std::string_view from, std::string_view to, std::string_view key,
                   const GetOptions& options, std::function<void(Result<Delivery>)> callback) override;
  Status watch(std::string_view from, std::string_view to, std::string_view key,
               std::function<void(Status)> callback) override;
  void abandon_get(std::string_view from, std::string_view to, std::string_view key) override;
  void on_abandoned(AbandonListener listener) override { outgoing_->on_abandoned(std::move(listener)); }
  void catch_up(Milliseconds timeout, std::function<void(Status)> callback) override;
  void abort(std::string_view from, std::string_view to, std::string_view key,
             std::string_view reason) override;
  bool withdraw(std::string_view from, std::string_view to, std::string_view key,
                std::string_view reason) override;
  Status cleanup(std::string_view request_id, std::optional<std::string_view> from,
                 std::optional<std::string_view> to) override;
  Status drain(Milliseconds timeout) override;
  bool wait(base::Event& event, Milliseconds timeout) override {
    return core_->wait_and_call_back(event, base::Deadline::after(timeout));
  }
  Health health() override;
  ConnectionInfo connection_info() const override;
  void update_sender_info(std::string_view host, int port) override;
  void close() override;

 private:
  Result<PutResult> put_source(std::string_view from, std::string_view to, std::string_view key,
                               Result<Source> source, const PutOptions& options);
  PutResult put_result(std::uint64_t size, wire::PayloadKind kind) const;
  Result<engine::DialPtr> dial_for(std::string_view key, const std::optional<TransferMetadata>& metadata);
  Result<engine::DialPtr> dial_to(const std::string& host, int port);
  Status open();
  Status not_closed(std::string_view call, std::string_view key) const;

  // engine::Handler
  void on_met(const engine::PeerPtr& peer, const engine::DialPtr& dial) override {
    incoming_->on_met(peer, dial);
  }
  void on_message(const engine::PeerPtr& peer, wire::Message&& message, MessagePayload&& payload) override;
  void on_lost(const engine::PeerPtr& peer, const Error& reason) override {
    outgoing_->on_lost(peer);
    incoming_->on_lost(peer, reason);
  }
  void on_original(const engine::DialPtr& dial) override { incoming_->on_original(dial); }
  void on_original_answer(const engine::DialPtr& dial, std::span<const std::byte> bytes) override {
    incoming_->on_original_answer(dial, bytes);
  }
  void on_original_request(const control::CallerId& caller, wire::OriginalRequest request) override {
    outgoing_->on_original_request(caller, std::move(request));
  }
  void on_connection_ended(EventSink::PeerToken connection) override {
    incoming_->on_connection_ended(connection);
  }
  void on_disconnected(const engine::DialPtr& dial) override { incoming_->on_disconnected(dial); }
  void run_callbacks() override { incoming_->run_callbacks(); }

  std::shared_ptr<engine::Core> core_;
  std::shared_ptr<memory::Pool> pool_;
  std::shared_ptr<engine::LocalRegion> region_;
  std::unique_ptr<Publications> outgoing_;
  std::unique_ptr<Subscriptions> incoming_;
  std::atomic<bool> closed_{false};

  mutable std::mutex mutex_;  ///< guards what follows
  std::string sender_host_;
  int sender_port_ = 0;
  engine::DialPtr sender_;  ///< of these two, once it is known
  std::map<std::pair<std::string, int>, engine::DialPtr> dials_;
};

Result<std::unique_ptr<Connector>> ConnectorImpl::create(const ConnectorConfig& config) {
  auto made = std::make_unique<ConnectorImpl>(config);
  if (Status opened = made->open(); !opened) {
    return opened.error().with_context(base::text("connector of stage ", config.stage_id));
  }
  return std::unique_ptr<Connector>(std::move(made));
}

Status ConnectorImpl::open() {
  if (Status ok = check(config_); !ok) return ok;
  const auto wish = parse_route(config_.route);
  if (!wish) return wish.error();
  auto backends = backends_of(config_);
  if (!backends) return backends.error();

  engine::CoreOptions options;
  options.engine.host = config_.host;
  options.engine.port = config_.zmq_port;
  options.engine.backends = std::move(*backends);
  options.engine.wait = config_.wait;
  options.engine.fault_spec = config_.fault_spec;
  options.engine.backend_settings = config_.backend_settings;
  options.engine.secret_key = config_.secret_key;
  options.handler = this;
  auto core = engine::Core::create(std::move(options));
  if (!core) return core.error();
  core_ = std::move(*core);

  memory::HostSlabOptions slab;
  slab.name = base::text("stagewire-pool-", config_.stage_id);
  slab.progress = [](std::size_t done, std::size_t all) {
    base::log(LogLevel::info, "connector", "preparing the pool: ", base::size_text(done), " of ",
              base::size_text(all));
  };
  auto pool = memory::Pool::create(config_.memory_pool_size, slab);
  if (!pool) return pool.error();
  pool_ = std::move(*pool);
  auto region = core_->register_region(pool_->region(), Access::remote_read);
  if (!region) return region.error();
  region_ = std::move(*region);
  core_->set_pool(region_->desc, static_cast<std::uint64_t>(config_.lease_share *
                                                            static_cast<double>(config_.memory_pool_size)));

  const auto duration = [](double seconds) {
    return std::chrono::duration_cast<base::Duration>(std::chrono::duration<double>(seconds));
  };
  const base::Duration ttl = duration(config_.buffer_ttl_s);
  outgoing_ = std::make_unique<Publications>(core_, pool_, region_, ttl);
  incoming_ = std::make_unique<Subscriptions>(core_, pool_, region_, *wish, ttl,
                                              duration(config_.original_timeout_s));
  config_.host = core_->desc().host;
  config_.zmq_port = core_->desc().port;
  if (Status started = core_->start(); !started) return started;
  if (!config_.sender_host.empty() && config_.sender_zmq_port != 0) {
    update_sender_info(config_.sender_host, config_.sender_zmq_port);
  }
  base::log(LogLevel::info, "connector", "stage ", config_.stage_id, " (", to_string(config_.role), ") at ",
            config_.host, ":", config_.zmq_port, ", pool ", base::size_text(config_.memory_pool_size), " in ",
            pool_->page_kind());
  return {};
}

Status ConnectorImpl::not_closed(std::string_view call, std::string_view key) const {
  if (!closed_) return {};
  return base::error(ErrorCode::closed, call, " of ", key, ": the connector was closed");
}

Result<PutResult> ConnectorImpl::put_source(std::string_view from, std::string_view to, std::string_view key,
                                            Result<Source> source, const PutOptions& options) {
  KeyName name;
  if (Status named = name.set(key, from, to); !named) return named.error();
  if (Status open = not_closed("put", name.text()); !open) return open.error();
  if (!source) return source.error().with_context(base::text("put of ", name.text()));
  if (source->size == 0)
    return base::error(ErrorCode::invalid_argument, "put of ", name.text(), ": the payload is empty");
  const Status put = outgoing_->put(name.text(), *source, deadline_after(options.timeout), options.spare);
  if (!put) return put.error();
  return put_result(source->size, source->kind);
}

Result<PutResult> ConnectorImpl::put(std::string_view from, std::string_view to, std::string_view key,
                                     PoolBuffer buffer, const PutOptions& options) {
  KeyName name;
  if (Status named = name.set(key, from, to); !named) return named.error();
  if (Status open = not_closed("put", name.text()); !open) return open.error();
  const std::uint64_t size = buffer.bytes().size();
  const auto kind = options.encoded_object ? wire::PayloadKind::object : wire::PayloadKind::bytes;
  const Status put = outgoing_->put(name.text(), std::move(buffer), kind);
  if (!put) return put.error();
  return put_result(size, kind);
}

PutResult ConnectorImpl::put_result(std::uint64_t size, wire::PayloadKind kind) const {
  return {size, {config_.host, config_.zmq_port, size, is_fast_path(kind)}};
}

Result<PoolBuffer> ConnectorImpl::allocate(std::size_t size, const PutOptions& options) {
  if (Status open = not_closed("allocate", base::size_text(size)); !open) return open.error();
  if (size == 0) return base::error(ErrorCode::invalid_argument, "allocate of 0 bytes");
  auto block = allocate_block(*core_, *pool_, size, base::Deadline::after(options.timeout));
  if (!block) return block.error();
  return PoolBuffer(std::make_unique<PoolBuffer::Holder>(pool_, *block, size));
}

Status ConnectorImpl::allocate_async(std::string_view from, std::string_view to, std::string_view key,
                                     std::size_t size, const PutOptions& options,
                                     std::function<void(Result<PoolBuffer>)> callback) {
  KeyName name;
  if (Status named = name.set(key, from, to); !named) return named.error();
  if (Status open = not_closed("allocate for", name.text()); !open) return open;
  if (size == 0) return base::error(ErrorCode::invalid_argument, "allocate of 0 bytes for ", name.text());
  outgoing_->allocate(name.text(), size, base::Deadline::after(options.timeout), options.spare,
                      std::move(callback));
  return {};
}

Result<engine::DialPtr> ConnectorImpl::dial_to(const std::string& host, int port) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = dials_.find({host, port}); known != dials_.end()) return known->second;
  }
  // Outside of the lock: the name may have to be asked for.
  auto dialled = core_->dial(host, port);
  if (!dialled) return dialled.error();
  const std::lock_guard lock(mutex_);
  const auto [place, added] = dials_.try_emplace({host, port}, *dialled);
  if (!added) core_->hang_up(*dialled);
  return place->second;
}

Result<engine::DialPtr> ConnectorImpl::dial_for(std::string_view key,
                                                const std::optional<TransferMetadata>& metadata) {
  std::string host;
  int port = 0;
  if (metadata) {
    host = metadata->source_host;
    port = metadata->source_port;
  } else {
    const std::lock_guard lock(mutex_);
    if (sender_) return sender_;
    host = sender_host_;
    port = sender_port_;
  }
  if (host.empty() || host == "auto" || port < 1 || port > 65535) {
    return base::error(ErrorCode::invalid_argument, "get of ", key,
                       ": the sender's address is not known (host \"", host, "\", port ", port,
                       "): give metadata, or call update_sender_info() first");
  }
  auto dialled = dial_to(host, port);
  if (!metadata && dialled) {
    const std::lock_guard lock(mutex_);
    if (sender_host_ == host && sender_port_ == port) sender_ = *dialled;
  }
  return dialled;
}

Result<Delivery> ConnectorImpl::get(std::string_view from, std::string_view to, std::string_view key,
                                    const GetOptions& options) {
  KeyName name;
  if (Status named = name.set(key, from, to); !named) return named.error();
  if (Status open = not_closed("get", name.text()); !open) return open.error();
  const auto dial = dial_for(name.text(), options.metadata);
  if (!dial) return dial.error();
  const auto size = options.metadata ? options.metadata->data_size : std::nullopt;
  return incoming_->get(name.text(), *dial, size, base::Deadline::after(options.timeout),
                        options.timeout.count() <= 0);
}

Status ConnectorImpl::get_async(std::string_view from, std::string_view to, std::string_view key,
                                const GetOptions& options, std::function<void(Result<Delivery>)> callback) {
  KeyName name;
  if (Status named = name.set(key, from, to); !named) return named.error();
  if (Status open = not_closed("get", name.text()); !open) return open;
  const auto dial = dial_for(name.text(), options.metadata);
  if (!dial) return dial.error();
  const auto size = options.metadata ? options.metadata->data_size : std::nullopt;
  incoming_->get_async(name.text(), *dial, size, base::Deadline::after(options.timeout), std::move(callback));
  return {};
}

Status ConnectorImpl::watch(std::string_view from, std::string_view to, std::string_view key,
                            std::function<void(Status)> callback) {
  KeyName name;
  if (Status named = name.set(key, from, to); !named) return named.error();
  if (Status open = not_closed("watch", name.text()); !open) return open;
  const auto dial = dial_for(name.text(), std::nullopt);
  if (!dial) return dial.error();
  incoming_->watch(name.text(), *dial, std::move(callback));
  return {};
}

void ConnectorImpl::catch_up(Milliseconds timeout, std::function<void(Status)> callback) {
  // There is no thread of ours any more to call it.
  if (closed_) return callback(Error(ErrorCode::closed, "the connector was closed"));
  outgoing_->catch_up(timeout, std::move(callback));
}

void ConnectorImpl::abandon_get(std::string_view from, std::string_view to, std::string_view key) {
  KeyName name;
  if (!name.set(key, from, to) || closed_) return;
  const auto dial = dial_for(name.text(), std::nullopt);
  incoming_->abandon(name.text(), dial ? *dial : nullptr);
}

void ConnectorImpl::abort(std::string_view from, std::string_view to, std::string_view key,
                          std::string_view reason) {
  KeyName name;
  if (name.set(key, from, to) && !closed_) outgoing_->abort(name.text(), reason);
}

bool ConnectorImpl::withdraw(std::string_view from, std::string_view to, std::string_view key,
                             std::string_view reason) {
  KeyName name;
  return name.set(key, from, to) && !closed_ && outgoing_->withdraw(name.text(), reason);
}

Status ConnectorImpl::cleanup(std::string_view request_id, std::optional<std::string_view> from,
                              std::optional<std::string_view> to) {
  if (from.has_value() != to.has_value()) {
    return base::error(ErrorCode::invalid_argument, "cleanup of ", request_id,
                       ": give both stages, or neither");
  }
  if (Status open = not_closed("cleanup", request_id); !open) return open;
  if (!from) {
    outgoing_->drop(request_id);
    return {};
  }
  KeyName name;
  if (Status named = name.set(request_id, *from, *to); !named) return named;
  outgoing_->drop(name.text());
  return {};
}

Status ConnectorImpl::drain(Milliseconds timeout) {
  if (Status open = not_closed("drain", "stage"); !open) return open;
  return outgoing_->drain(base::Deadline::after(timeout));
}

Health ConnectorImpl::health() {
  Health health;
  health.host = config_.host;
  health.zmq_port = config_.zmq_port;
  health.pool_device = config_.memory_pool_device;
  health.pool_size = config_.memory_pool_size;
  health.engine_key = core_->desc().key;
  if (closed_) {
    health.error = "Connector is closed";
    return health;
  }
  core_->poll();
  health.healthy = true;
  const memory::PoolStats pool = pool_->stats();
  health.pool_free = pool.free;
  health.pool_quarantined = pool.quarantined;
  const SenderCounters sent = outgoing_->counters();
  const ReceiverCounters got = incoming_->counters();
  health.puts = sent.puts;
  health.bytes_put = sent.bytes;
  health.expired = sent.expired;
  health.published = sent.published;
  health.watched = sent.watched;
  health.gets = got.gets;
  health.bytes_got = got.bytes;
  health.errors = sent.errors + got.errors;
  health.timeouts = got.timeouts;
  health.late = got.late;
  health.eager = got.eager;
  health.lease = got.lease;
  health.read = got.read;
  health.write = got.write;
  health.route_reason = got.route_reason;
  const LatencyHistogram& latency = incoming_->latency();
  constexpr double kToMicroseconds = 1e-3;
  health.latency_p50_us = latency.percentile(0.5) * kToMicroseconds;
  health.latency_p90_us = latency.percentile(0.9) * kToMicroseconds;
  health.latency_p99_us = latency.percentile(0.99) * kToMicroseconds;
  return health;
}

ConnectionInfo ConnectorImpl::connection_info() const {
  return {config_.host, config_.zmq_port, core_->desc().key, true};
}

void ConnectorImpl::update_sender_info(std::string_view host, int port) {
  {
    const std::lock_guard lock(mutex_);
    sender_host_ = std::string(host);
    sender_port_ = port;
    sender_.reset();
  }
  // Meeting takes a round trip or two: it is done before the first payload is wanted (R21).
  if (closed_ || host.empty() || host == "auto" || port <= 0) return;
  if (const auto dial = dial_to(std::string(host), port); !dial) {
    base::log(LogLevel::warning, "connector", "the sender's address: ", dial.error().message());
  }
}

void ConnectorImpl::on_message(const engine::PeerPtr& peer, wire::Message&& message,
                               MessagePayload&& payload) {
  if (auto* ready = std::get_if<wire::Ready>(&message)) {
    incoming_->on_ready(peer, std::move(*ready), std::move(payload));
  } else if (const auto* watch = std::get_if<wire::Watch>(&message)) {
    outgoing_->on_watch(peer, *watch);
  } else if (const auto* unwatch = std::get_if<wire::Unwatch>(&message)) {
    outgoing_->on_unwatch(peer, *unwatch);
  } else if (const auto* release = std::get_if<wire::Release>(&message)) {
    outgoing_->on_release(peer, *release);
  } else if (const auto* gone = std::get_if<wire::Gone>(&message)) {
    incoming_->on_gone(peer, *gone);
  } else if (auto* pull = std::get_if<wire::Pull>(&message)) {
    outgoing_->on_pull(peer, std::move(*pull));
  } else if (const auto* done = std::get_if<wire::PullDone>(&message)) {
    incoming_->on_pull_done(peer, *done);
  } else if (const auto* cancel = std::get_if<wire::Cancel>(&message)) {
    outgoing_->on_cancel(peer, *cancel);
  } else if (const auto* ping = std::get_if<wire::Ping>(&message)) {
    core_->send(*peer, wire::Pong{ping->id});
  } else if (const auto* pong = std::get_if<wire::Pong>(&message)) {
    outgoing_->on_pong(peer, *pong);
  }
}

void ConnectorImpl::close() {
  if (closed_.exchange(true) || !core_) return;
  if (incoming_) incoming_->close();
  if (outgoing_) outgoing_->close();
  if (pool_) pool_->close();
  core_->close();
}

}  // namespace
}  // namespace connector

Result<std::unique_ptr<Connector>> Connector::create(const ConnectorConfig& config) {
  return connector::ConnectorImpl::create(config);
}

}  // namespace stagewire
