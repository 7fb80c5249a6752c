#include "engine/transfer.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "engine/core.hpp"

namespace stagewire::engine {

void LocalRegion::acquire() {
  const std::lock_guard lock(mutex);
  ++in_flight;
}

void LocalRegion::release() {
  const std::lock_guard lock(mutex);
  STAGEWIRE_CHECK(in_flight > 0, "a region is released once for each transfer");
  if (--in_flight == 0) idle_waiters.set_all();
}

const Registration* LocalRegion::registration(const Backend* backend) {
  const std::lock_guard lock(mutex);
  const auto found = registrations.find(backend);
  return found == registrations.end() ? nullptr : found->second.get();
}

bool LocalRegion::deregister() {
  decltype(registrations) ended;
  const std::lock_guard lock(mutex);
  if (in_flight > 0) return false;
  ended.swap(registrations);
  return true;
}

TransferImpl::TransferImpl(std::weak_ptr<Core> core, Request request)
    : core_(std::move(core)), request_(std::move(request)), id_(request_.options.id) {
  request_.local->acquire();
}

TransferImpl::TransferImpl(std::weak_ptr<Core> core, std::uint32_t id, Error error)
    : core_(std::move(core)),
      id_(id),
      state_(TransferState::failed),
      error_(std::move(error)),
      quiet_(true) {}

// Put together only when somebody asks: transfers that succeed never do.
std::string TransferImpl::describe() const {
  std::uint64_t bytes = 0;
  for (const Segment& segment : request_.segments) bytes += segment.size;
  return base::text(request_.operation == Operation::read ? "read of " : "write of ", request_.what, " (",
                    bytes, " bytes in ", request_.segments.size(), " pieces) ",
                    request_.operation == Operation::read ? "from " : "to ",
                    request_.peer ? request_.peer->desc.key : "nobody");
}

std::optional<Error> TransferImpl::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

std::string TransferImpl::message() const {
  const std::lock_guard lock(mutex_);
  return error_ ? error_->message() : std::string();
}

bool TransferImpl::end(const Status& status) {
  std::vector<std::function<void(const Status&)>> callbacks;
  {
    const std::lock_guard lock(mutex_);
    if (state_ != TransferState::pending) return false;
    if (!status) error_ = status.error().with_context(describe());
    state_.store(status ? TransferState::done : TransferState::failed, std::memory_order_release);
    callbacks.swap(callbacks_);
    waiters_.set_all();
  }
  const Status told = error_ ? Status(*error_) : Status();
  for (auto& callback : callbacks) callback(told);
  return true;
}

void TransferImpl::quiesce() {
  std::function<void()> callback;
  {
    const std::lock_guard lock(mutex_);
    if (quiet_) return;
    quiet_ = true;
    callback.swap(quiet_callback_);
    quiet_waiters_.set_all();
  }
  request_.local->release();
  if (callback) callback();
}

void TransferImpl::on_quiet(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (!quiet_) {
      quiet_callback_ = std::move(callback);
      return;
    }
  }
  callback();
}

// Whether the event, which is in `list` unless it is set already, was set in time.
bool TransferImpl::wait_in(EventList& list, base::Event& event, Milliseconds timeout) {
  const std::shared_ptr<Core> core = core_.lock();
  const base::Deadline deadline = base::Deadline::after(timeout);
  const bool rung = core ? core->wait(event, deadline) : event.wait(deadline);
  if (rung) return true;
  const std::lock_guard lock(mutex_);
  list.remove(&event);
  return event.is_set();
}

Status TransferImpl::wait_for(Milliseconds timeout) {
  base::Event event;
  {
    const std::lock_guard lock(mutex_);
    if (state_ == TransferState::pending)
      waiters_.add(&event);
    else
      event.set();
  }
  if (!wait_in(waiters_, event, timeout)) {
    return base::error(ErrorCode::timeout, describe(), ": still under way after ", timeout.count(), " ms");
  }
  const std::lock_guard lock(mutex_);
  return error_ ? Status(*error_) : Status();
}

Status TransferImpl::wait_quiet(Milliseconds timeout) {
  base::Event event;
  {
    const std::lock_guard lock(mutex_);
    if (quiet_) return {};
    quiet_waiters_.add(&event);
  }
  if (wait_in(quiet_waiters_, event, timeout)) return {};
  return base::error(ErrorCode::timeout, describe(), ": may still move bytes after ", timeout.count(), " ms");
}

void TransferImpl::on_end(std::function<void(const Status&)> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (state_ == TransferState::pending) {
      callbacks_.push_back(std::move(callback));
      return;
    }
  }
  callback(error_ ? Status(*error_) : Status());
}

void TransferImpl::cancel() {
  const std::shared_ptr<Core> core = core_.lock();
  if (core && request_.peer) core->give_up(shared_from_this(), Error(ErrorCode::cancelled, "cancelled"));
}

// --- The engine's side
// --------------------------------------------------------------------------------------------

std::uint32_t Core::allocate_transfer_id() {
  return transfers_.next_id.fetch_add(1);
}

Result<std::shared_ptr<LocalRegion>> Core::register_region(const MemoryRegion& region, Access access) {
  if (region.data == nullptr || region.size == 0) {
    return base::error(ErrorCode::invalid_argument, "register a region of ", region.size, " bytes at ",
                       static_cast<const void*>(region.data), ": it needs an address and a size");
  }
  auto local = std::make_shared<LocalRegion>();
  local->backends = backends_;
  local->region = region;
  MemoryDesc& desc = local->desc;
  desc.engine_key = desc_.key;
  desc.device_id = region.device;
  desc.data = reinterpret_cast<std::uintptr_t>(region.data);
  desc.size = region.size;
  desc.kind = region.kind;
  desc.instance_id = desc_.instance_id;
  desc.access = access;
  local->region.id = desc.id = transfers_.next_region.fetch_add(1);
  std::string refused;
  for (auto& backend : *backends_) {
    auto registration = backend->register_region(local->region, access);
    if (!registration) {
      refused +=
          base::text(refused.empty() ? "" : "; ", backend->name(), ": ", registration.error().message());
      continue;
    }
    const auto key = (*registration)->remote_key();
    desc.remote_keys.push_back(
        {std::string(backend->name()), std::vector<std::byte>(key.begin(), key.end())});
    local->registrations[backend.get()] = std::move(*registration);
  }
  if (local->registrations.empty()) {
    return base::error(ErrorCode::unsupported, "no backend can serve ", base::size_text(region.size), " at ",
                       static_cast<const void*>(region.data), ": ", refused);
  }
  if (!refused.empty()) {
    base::log(LogLevel::info, "engine", base::size_text(region.size), " at ",
              static_cast<const void*>(region.data), " cannot be reached over every backend: ", refused);
  }
  const std::lock_guard lock(transfers_.mutex);
  transfers_.regions[desc.id] = local;
  return local;
}

std::shared_ptr<LocalRegion> Core::find_region(std::uint32_t id) {
  const std::lock_guard lock(transfers_.mutex);
  const auto found = transfers_.regions.find(id);
  return found == transfers_.regions.end() ? nullptr : found->second;
}

Status Core::deregister_region(std::uint32_t id, base::Deadline deadline) {
  const std::shared_ptr<LocalRegion> local = find_region(id);
  if (!local)
    return base::error(ErrorCode::not_found, "region ", id, " of ", desc_.key, " is not registered");
  while (!local->deregister()) {
    base::Event idle;
    {
      const std::lock_guard lock(local->mutex);
      if (local->in_flight == 0) continue;
      local->idle_waiters.add(&idle);
    }
    if (wait(idle, deadline)) continue;
    const std::lock_guard lock(local->mutex);
    local->idle_waiters.remove(&idle);
    if (local->in_flight == 0) continue;
    return base::error(ErrorCode::timeout, "region ", id, " of ", desc_.key,
                       " stays registered: ", local->in_flight, " transfers may still touch it");
  }
  const std::lock_guard lock(transfers_.mutex);
  transfers_.regions.erase(id);
  return {};
}

Result<std::shared_ptr<RemoteRegion>> Core::import_region(Peer& peer, const MemoryDesc& memory) {
  const std::lock_guard lock(peer.mutex);
  if (peer.lost) return base::error(ErrorCode::unavailable, peer.desc.key, " is gone");
  if (!peer.endpoint) {
    return base::error(ErrorCode::unavailable, "no backend reaches ", peer.desc.key, ": ", peer.route_reason);
  }
  for (const BackendBlob& key : memory.remote_keys) {
    if (key.backend != peer.backend->name()) continue;
    auto& place = peer.imports[key.bytes];
    if (place) {
      const auto status = place->status();
      if (!status || status->ok()) return place;
    }
    auto imported = peer.endpoint->import(key.bytes);
    if (!imported) {
      peer.imports.erase(key.bytes);
      return imported.error().with_context(base::text("region ", memory.id, " of ", peer.desc.key));
    }
    place = std::move(*imported);
    return place;
  }
  return base::error(ErrorCode::unsupported, "region ", memory.id, " of ", peer.desc.key,
                     " cannot be reached over ", peer.backend->name(), " (it was not registered for it)");
}

void Core::submit(const std::shared_ptr<TransferImpl>& transfer, bool on_this_thread) {
  Peer& peer = *transfer->request().peer;
  PostOutcome outcome;
  {
    std::unique_lock lock(peer.mutex);
    const bool first = peer.waiting_transfers.empty();
    if (first && !peer.lost && !closed_) outcome = post(peer, transfer, lock, on_this_thread);
    if (outcome.kind == PostOutcome::later) {
      if (peer.lost || closed_ || transfer->given_up) {
        outcome = {PostOutcome::ended, base::error(ErrorCode::unavailable, peer.desc.key, " is gone")};
      } else {
        peer.waiting_transfers.push_back(transfer);
        note_busy(peer);
        wake_loop();
      }
    }
    if (outcome.kind != PostOutcome::ended) {
      const Milliseconds timeout = transfer->request().options.timeout;
      transfer->timer =
          add_timer(base::Deadline::after(timeout, clock()), [this, weak = std::weak_ptr(transfer), timeout] {
            if (const auto late = weak.lock()) {
              give_up(late, base::error(ErrorCode::timeout, "not done after ", timeout.count(), " ms"));
            }
          });
    }
  }
  if (outcome.kind == PostOutcome::ended) finish(transfer, outcome.status);
}

// Without locks: the owner's callbacks run here.
void Core::finish(const std::shared_ptr<TransferImpl>& transfer, const Status& status) {
  std::uint64_t timer = 0;
  {
    const std::lock_guard lock(transfer->request().peer->mutex);
    timer = transfer->timer;
  }
  if (timer != 0) cancel_timer(timer);
  transfer->end(status);
  transfer->quiesce();
}

// With the peer's mutex held, but let go of while a copy may be made on this thread: others have messages for
// the same peer meanwhile.
PostOutcome Core::post(Peer& peer, const std::shared_ptr<TransferImpl>& transfer,
                       std::unique_lock<std::mutex>& lock, bool on_this_thread) {
  TransferImpl::Request& request = transfer->request();
  if (!peer.endpoint) {
    return {PostOutcome::ended, base::error(ErrorCode::unavailable, "no backend reaches ", peer.desc.key,
                                            ": ", peer.route_reason)};
  }
  // A notification must not overtake our hello: the peer would not know whose it is.
  if (request.options.notify && !peer.outbox.empty()) return {};
  const auto ready = request.remote->status();
  if (!ready) return {};
  if (!*ready) return {PostOutcome::ended, *ready};
  const Registration* registration = request.local->registration(peer.backend);
  if (registration == nullptr) {
    return {PostOutcome::ended, base::error(ErrorCode::unsupported, "our region ", request.local->desc.id,
                                            " is not registered with ", peer.backend->name())};
  }
  WorkRequest work;
  {
    const std::lock_guard table(transfers_.mutex);
    work.id = transfers_.next_work++;
    transfers_.posted[work.id] = transfer;
  }
  work.operation = request.operation;
  work.local = registration;
  work.remote = request.remote.get();
  work.segments = request.segments;
  if (request.options.notify) work.notification = transfer->id();
  work.on_this_thread = on_this_thread;
  transfer->posted = true;
  const std::shared_ptr<Endpoint> endpoint = peer.endpoint;
  if (on_this_thread) lock.unlock();
  auto posted = endpoint->post(work);
  if (on_this_thread) lock.lock();
  if (posted && *posted == Posted::pending) return {PostOutcome::posted, {}};
  transfer->posted = false;
  {
    const std::lock_guard table(transfers_.mutex);
    transfers_.posted.erase(work.id);
    if (transfers_.posted.empty()) transfers_.quiet_waiters.set_all();
  }
  if (!posted) return {PostOutcome::ended, posted.error()};
  if (*posted == Posted::completed) return {PostOutcome::ended, {}};
  return {};
}

void Core::complete(Completion&& completion) {
  std::shared_ptr<TransferImpl> transfer;
  {
    const std::lock_guard lock(transfers_.mutex);
    const auto found = transfers_.posted.find(completion.id);
    if (found == transfers_.posted.end()) return;
    transfer = std::move(found->second);
    transfers_.posted.erase(found);
  }
  finish(transfer, completion.status);
  const std::lock_guard lock(transfers_.mutex);
  if (transfers_.posted.empty()) transfers_.quiet_waiters.set_all();
}

// The owner no longer waits. What was not posted ends here and now; what was goes on under the backend's
// eyes, and the region stays in use until it has quiesced.
void Core::give_up(const std::shared_ptr<TransferImpl>& transfer, const Error& reason) {
  bool posted = false;
  {
    Peer& peer = *transfer->request().peer;
    const std::lock_guard lock(peer.mutex);
    posted = transfer->posted;
    transfer->given_up = true;
    std::erase(peer.waiting_transfers, transfer);
  }
  transfer->end(reason);
  if (!posted) transfer->quiesce();
}

void Core::fail_transfers_of(Peer& peer, const Error& reason) {
  std::deque<std::shared_ptr<TransferImpl>> waiting;
  std::vector<std::shared_ptr<TransferImpl>> posted;
  {
    const std::lock_guard lock(peer.mutex);
    waiting.swap(peer.waiting_transfers);
  }
  {
    const std::lock_guard lock(transfers_.mutex);
    for (const auto& entry : transfers_.posted) {
      if (entry.second->request().peer.get() == &peer) posted.push_back(entry.second);
    }
    if (const auto inbound = transfers_.inbound.find(peer.desc.key); inbound != transfers_.inbound.end()) {
      for (const auto& waiter : inbound->second.waiters) waiter.second->set();
    }
  }
  for (const auto& transfer : waiting) {
    transfer->end(reason);
    transfer->quiesce();
  }
  for (const auto& transfer : posted) transfer->end(reason);
}

// After the progress thread has ended: what a backend has not completed by now it never will. Without its
// endpoint no byte of it moves any more.
void Core::abandon_posted() {
  std::unordered_map<std::uint64_t, std::shared_ptr<TransferImpl>> left;
  {
    const std::lock_guard lock(transfers_.mutex);
    left.swap(transfers_.posted);
  }
  for (const auto& entry : left) {
    Peer& peer = *entry.second->request().peer;
    std::shared_ptr<Endpoint> endpoint;
    {
      const std::lock_guard lock(peer.mutex);
      endpoint.swap(peer.endpoint);
    }
    endpoint.reset();
    entry.second->quiesce();
  }
}

}  // namespace stagewire::engine
