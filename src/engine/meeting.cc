// How engines become each other's peers, and how they part.
//
// Whoever calls says hello over the control plane; the other answers with its own. Each then connects to the
// other over the best backend that both have, and says hello there as well, so that what arrives over a
// backend has a name. An engine that was restarted has another instance id: its old self is dropped when the
// new one is met (R09).
#include <algorithm>
#include <cstring>

#include "base/log.hpp"
#include "base/text.hpp"
#include "control/host_address.hpp"
#include "engine/core.hpp"

namespace stagewire::engine {
namespace {

// After a peer is dropped while its control connection stands: how long before it is greeted again.
constexpr base::Duration kGreetAgain = std::chrono::milliseconds(100);

bool is_text(std::span<const std::byte> bytes, std::string_view text) {
  return bytes.size() >= text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}

std::vector<std::byte> encoded(const wire::Message& message) {
  std::vector<std::byte> bytes;
  wire::encode(message, bytes);
  return bytes;
}

// MORI-IO's engines have no instance: one of them is another when anything about it is.
bool is_same_instance(const EngineDesc& known, const EngineDesc& desc) {
  return known.instance_id == desc.instance_id && (desc.instance_id != 0 || known == desc);
}

bool has_endpoint(Peer& peer) {
  const std::lock_guard lock(peer.mutex);
  return peer.endpoint != nullptr;
}

}  // namespace

Peer::~Peer() {
  imports.clear();
  endpoint.reset();
}

Result<DialPtr> Core::dial(const std::string& host, int port) {
  auto address = control::resolve_host(host);
  if (!address) return address.error();
  const auto dial = std::make_shared<Dial>();
  dial->host = std::move(*address);
  dial->port = port;
  run_on_loop([this, dial] { place_call(dial); });
  return dial;
}

// On the progress thread.
void Core::place_call(const DialPtr& dial) {
  const std::lock_guard lock(dial->mutex);
  if (dial->hung_up) return;
  auto id = control_->dial(dial->host, dial->port);
  if (!id) {
    dial->trouble = id.error().message();
    return;
  }
  dial->id = *id;
  dial->state = Dial::State::calling;
  const std::lock_guard table(mutex_);
  dials_[*id] = dial;
}

void Core::redial(const DialPtr& dial) {
  run_on_loop([this, dial] {
    if (dial->id != 0) {
      control_->hang_up(dial->id);
      const std::lock_guard lock(mutex_);
      dials_.erase(dial->id);
    }
    place_call(dial);
  });
}

void Core::hang_up(const DialPtr& dial) {
  {
    const std::lock_guard lock(dial->mutex);
    dial->hung_up = true;
  }
  redial(dial);
}

DialPtr Core::find_dial(control::DialId id) {
  const std::lock_guard lock(mutex_);
  const auto found = dials_.find(id);
  return found == dials_.end() ? nullptr : found->second;
}

wire::Hello Core::hello(bool wants_reply) {
  wire::Hello hello;
  hello.engine = desc_.pack();
  hello.wants_reply = wants_reply;
  const std::lock_guard lock(mutex_);
  if (pool_.size > 0) hello.pool = pool_.pack();
  hello.lease_limit = lease_limit_;
  return hello;
}

void Core::handle_connected(control::DialId id, bool connected) {
  const DialPtr dial = find_dial(id);
  if (!dial) return;
  if (connected) {
    if (Status sent = control_->send(id, encoded(hello(true))); !sent) {
      const std::lock_guard lock(dial->mutex);
      dial->trouble = sent.error().message();
    }
    return;
  }
  PeerPtr lost;
  {
    const std::lock_guard lock(dial->mutex);
    dial->trouble = "the connection was closed by the other side";
    lost = dial->peer;
    if (dial->state == Dial::State::original) dial->state = Dial::State::calling;
  }
  // With an endpoint, the backend knows better whether the peer lives.
  if (lost && !has_endpoint(*lost))
    drop_peer(lost, base::error(ErrorCode::unavailable, "lost ", lost->desc.key, " at ", dial->name()));
  if (options_.handler != nullptr) options_.handler->on_disconnected(dial);
}

void Core::handle_answer(control::DialId id, std::span<const std::byte> payload) {
  const DialPtr dial = find_dial(id);
  if (!dial) return;
  if (!wire::is_message(payload)) {
    const bool first = [&] {
      const std::lock_guard lock(dial->mutex);
      if (dial->state != Dial::State::calling) return false;
      dial->state = Dial::State::original;
      return true;
    }();
    if (options_.handler == nullptr) return;
    // The first answer is to our hello, which the original's peers take for a request that they cannot read.
    if (first) {
      options_.handler->on_original(dial);
    } else if (dial->state == Dial::State::original) {
      options_.handler->on_original_answer(dial, payload);
    }
    return;
  }
  auto message = wire::decode(payload);
  const auto* hello = message ? std::get_if<wire::Hello>(&*message) : nullptr;
  if (hello == nullptr) {
    PeerPtr peer;
    {
      const std::lock_guard lock(dial->mutex);
      peer = dial->peer;
    }
    if (peer) dispatch(peer, payload, {});
    return;
  }
  if (const auto peer = meet(*hello, id, {}, dial); !peer) {
    const std::lock_guard lock(dial->mutex);
    dial->trouble = peer.error().message();
  }
}

void Core::handle_call(const control::CallerId& caller, std::span<const std::byte> payload) {
  if (wire::is_message(payload)) {
    auto message = wire::decode(payload);
    if (const auto* hello_in = message ? std::get_if<wire::Hello>(&*message) : nullptr; hello_in != nullptr) {
      // Our answer goes first: what the handler sends to its new peer must not overtake it.
      if (hello_in->wants_reply) static_cast<void>(control_->answer(caller, encoded(hello(false))));
      static_cast<void>(meet(*hello_in, 0, caller, nullptr));
      return;
    }
    PeerPtr peer;
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = callers_.find(caller); found != callers_.end()) peer = found->second;
    }
    if (peer) dispatch(peer, payload, {});
    return;
  }
  auto request = wire::decode_original_request(payload);
  if (request && options_.handler != nullptr) {
    options_.handler->on_original_request(caller, std::move(*request));
    return;
  }
  const bool query = is_text(payload, wire::kQueryPrefix);
  static_cast<void>(control_->answer(caller, bytes_of(query ? wire::kInfoNotFound : wire::kTransferError)));
}

// Refuses, and logs why, what describes no engine, or one that is over: the hello of a peer that was
// deregistered or replaced may come late.
Result<PeerPtr> Core::meet(const wire::Hello& hello, control::DialId dial_id, const control::CallerId& caller,
                           const DialPtr& dial) {
  auto desc = EngineDesc::unpack(hello.engine);
  if (!desc || desc->key.empty() || desc->instance_id == 0) {
    const Error refused =
        base::error(ErrorCode::corrupt, "refused a hello without a readable engine descriptor",
                    desc ? "" : ": " + desc.error().message());
    base::log(LogLevel::warning, "engine", refused.message());
    return refused;
  }
  if (is_over(*desc)) {
    const Error refused =
        base::error(ErrorCode::unavailable, "refused a hello of ", desc->key, " (pid ", desc->pid,
                    "): it was deregistered, has closed, or another engine has taken its key");
    base::log(LogLevel::debug, "engine", refused.message());
    return refused;
  }
  MemoryDesc pool;
  if (!hello.pool.empty()) {
    auto unpacked = MemoryDesc::unpack(hello.pool);
    if (unpacked) pool = std::move(*unpacked);
  }
  const PeerPtr peer = add_peer(*desc);
  bool first = false;
  {
    const std::lock_guard lock(peer->mutex);
    first = !peer->met;
    peer->met = true;
    peer->hello = hello;
    if (pool.size > 0) peer->pool = pool;
    if (dial_id != 0) peer->dial = dial_id;
    if (!caller.empty()) peer->caller = caller;
  }
  if (!caller.empty()) {
    const std::lock_guard lock(mutex_);
    callers_[caller] = peer;
  }
  if (dial) {
    const std::lock_guard lock(dial->mutex);
    dial->peer = peer;
    dial->state = Dial::State::met;
    dial->trouble.clear();
  }
  // The pool is mapped while nobody waits for it yet.
  if (pool.size > 0) static_cast<void>(import_region(*peer, pool));
  if (options_.handler != nullptr && (first || dial)) options_.handler->on_met(peer, dial);
  return peer;
}

PeerPtr Core::add_peer(const EngineDesc& desc) {
  PeerPtr replaced;
  PeerPtr peer;
  {
    std::unique_lock lock(mutex_);
    PeerPtr& place = peers_[desc.key];
    if (place && is_same_instance(place->desc, desc)) {
      peer = place;
      lock.unlock();
      open_route(*peer);  // whoever added it may not have come to that yet
      return peer;
    }
    replaced = place;
    earlier_.set_current(desc.key, desc.instance_id);
    place = peer = std::make_shared<Peer>();
    peer->backends = backends_;
    peer->desc = desc;
  }
  if (replaced || desc.instance_id != 0) forget_inbound(desc.key);
  if (replaced) {
    drop_peer(replaced, base::error(ErrorCode::unavailable, desc.key, " was restarted"));
  }
  open_route(*peer);
  return peer;
}

bool Core::is_over(const EngineDesc& desc) {
  const std::lock_guard lock(mutex_);
  return earlier_.is_over(desc.key, desc.instance_id);
}

PeerPtr Core::find_peer(std::string_view engine_key) {
  const std::lock_guard lock(mutex_);
  const auto found = peers_.find(std::string(engine_key));
  return found == peers_.end() ? nullptr : found->second;
}

std::vector<PeerPtr> Core::peers() {
  std::vector<PeerPtr> all;
  add_peers(all);
  return all;
}

void Core::add_peers(std::vector<PeerPtr>& all) {
  const std::lock_guard lock(mutex_);
  for (const auto& entry : peers_) all.push_back(entry.second);
}

// Connects over the first backend that both have and that reaches; remembers why the others do not.
void Core::open_route(Peer& peer) {
  const std::vector<std::byte> greeting = encoded(hello(false));
  const std::lock_guard lock(peer.mutex);
  if (!peer.route_reason.empty()) return;  // tried already
  std::string refused;
  for (auto& backend : *backends_) {
    const auto address =
        std::find_if(peer.desc.addresses.begin(), peer.desc.addresses.end(),
                     [&](const BackendBlob& blob) { return blob.backend == backend->name(); });
    const Status reached = address == peer.desc.addresses.end()
                               ? Status(Error(ErrorCode::unsupported, "the peer does not have it"))
                               : backend->reaches(address->bytes);
    if (!reached) {
      refused += base::text("; not ", backend->name(), ": ", reached.error().message());
      continue;
    }
    auto endpoint = backend->connect(address->bytes);
    if (!endpoint) {
      refused += base::text("; not ", backend->name(), ": ", endpoint.error().message());
      continue;
    }
    peer.backend = backend.get();
    peer.endpoint = std::move(*endpoint);
    peer.route_reason =
        base::text(backend->name(), ": reaches ", peer.desc.key, " (pid ", peer.desc.pid, ")", refused);
    if (backend->capabilities().max_message_size == 0) return;  // whoever it is hears nothing this way
    peer.outbox.push_back({greeting, {}, true});
    note_busy(peer);
    wake_loop();
    return;
  }
  peer.route_reason = "control plane only" + refused;
}

void Core::drop_peer(const PeerPtr& peer, const Error& reason) {
  std::vector<DialPtr> dials;
  {
    const std::lock_guard lock(mutex_);
    if (peer->lost.exchange(true)) return;
    if (const auto place = peers_.find(peer->desc.key); place != peers_.end() && place->second == peer) {
      peers_.erase(place);
    }
    std::erase_if(callers_, [&](const auto& entry) { return entry.second == peer; });
    std::erase_if(arrived_, [&](const auto& entry) { return entry.second == peer; });
    for (const auto& entry : dials_) dials.push_back(entry.second);
  }
  base::log(LogLevel::debug, "engine", "peer ", peer->desc.key, " is gone: ", reason.message());
  for (const DialPtr& dial : dials) {
    const std::lock_guard lock(dial->mutex);
    if (dial->peer != peer) continue;
    dial->peer = nullptr;
    dial->state = Dial::State::calling;
    dial->trouble = reason.message();
    if (!closed_ && !dial->hung_up) greet_again(dial);
  }
  fail_transfers_of(*peer, reason);
  if (options_.handler != nullptr) options_.handler->on_lost(peer, reason);
}

void Core::dismiss_peer(const PeerPtr& peer, const Error& reason) {
  {
    const std::lock_guard lock(mutex_);
    earlier_.end(peer->desc.key, peer->desc.instance_id);
  }
  drop_peer(peer, reason);
}

// The control connection may have outlived the peer's other connection: then nobody else would say hello
// again.
void Core::greet_again(const DialPtr& dial) {
  add_timer(base::Deadline::after(kGreetAgain, clock()), [this, dial] {
    {
      const std::lock_guard lock(dial->mutex);
      if (dial->hung_up || dial->state != Dial::State::calling) return;
    }
    static_cast<void>(control_->send(dial->id, encoded(hello(true))));
  });
}

EventSink::PeerToken Core::arrived(std::string_view engine_key) {
  const std::lock_guard lock(mutex_);
  const EventSink::PeerToken token = next_token_++;
  if (!engine_key.empty()) {
    named_[token] = engine_key;
    return token;
  }
  arrived_[token] = nullptr;
  connections_.insert(token);
  return token;
}

void Core::arrived_message(EventSink::PeerToken token, std::span<const std::byte> bytes,
                           MessagePayload payload) {
  last_traffic_ns_.store(base::steady_clock().now().time_since_epoch().count(), std::memory_order_relaxed);
  PeerPtr peer;
  {
    const std::lock_guard lock(mutex_);
    const auto found = arrived_.find(token);
    if (found == arrived_.end()) return;  // dropped meanwhile
    peer = found->second;
  }
  if (peer) return dispatch(peer, bytes, std::move(payload));
  auto message = wire::decode(bytes);
  const auto* hello_in = message ? std::get_if<wire::Hello>(&*message) : nullptr;
  if (hello_in == nullptr) {
    base::log(LogLevel::warning, "engine", "a peer sent something else before its hello; ignored");
    return;
  }
  const auto met = meet(*hello_in, 0, {}, nullptr);
  const std::lock_guard lock(mutex_);
  if (!met) {
    arrived_.erase(token);  // nor is anything else that it says heard
    return;
  }
  arrived_[token] = *met;
  (*met)->token = token;
}

std::set<EventSink::PeerToken> Core::connections() {
  const std::lock_guard lock(mutex_);
  return connections_;
}

std::optional<EventSink::PeerToken> Core::connection_of(const Peer& peer) {
  const std::lock_guard lock(mutex_);
  return connections_.contains(peer.token) ? std::optional(peer.token) : std::nullopt;
}

void Core::connection_ended(EventSink::PeerToken token) {
  {
    const std::lock_guard lock(mutex_);
    if (connections_.erase(token) == 0) return;
  }
  if (options_.handler != nullptr) options_.handler->on_connection_ended(token);
}

// A peer's goodbye: it moves no byte any more, although its connection may last for a moment.
void Core::took_leave(const PeerPtr& peer) {
  if (const auto connection = connection_of(*peer)) connection_ended(*connection);
  dismiss_peer(peer, base::error(ErrorCode::unavailable, peer->desc.key, " has closed"));
}

void Core::arrived_lost(EventSink::PeerToken token, const Error& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto named = named_.find(token); named != named_.end()) {
      base::log(LogLevel::debug, "engine", named->second, " has gone: ", reason.message());
      named_.erase(named);
      return;
    }
  }
  // Whoever was sent away for breaking the protocol may live on, with our memory mapped.
  if (reason.code() == ErrorCode::unavailable) connection_ended(token);
  PeerPtr peer;
  {
    const std::lock_guard lock(mutex_);
    const auto found = arrived_.find(token);
    if (found == arrived_.end()) return;
    peer = found->second;
    arrived_.erase(found);
    if (peer && peer->token != token) return;  // it has come back over another connection
  }
  if (peer) {
    drop_peer(peer, base::error(ErrorCode::unavailable, "lost ", peer->desc.key, " (pid ", peer->desc.pid,
                                "): ", reason.message()));
  }
}

void Core::dispatch(const PeerPtr& peer, std::span<const std::byte> bytes, MessagePayload payload) {
  auto message = wire::decode(bytes);
  if (!message) {
    if (const auto held = bad_messages_.admit(clock().now())) {
      base::log(LogLevel::warning, "engine", "message from ", peer->desc.key,
                " ignored: ", message.error().message(),
                *held > 0 ? base::text(" (and ", *held, " more)") : "");
    }
    send(*peer, wire::Failure{static_cast<std::uint32_t>(message.error().code()), message.error().message()});
    return;
  }
  if (const auto* hello_in = std::get_if<wire::Hello>(&*message); hello_in != nullptr) {
    static_cast<void>(meet(*hello_in, 0, {}, nullptr));
  } else if (std::holds_alternative<wire::Bye>(*message)) {
    took_leave(peer);
  } else if (const auto* failure = std::get_if<wire::Failure>(&*message); failure != nullptr) {
    base::log(LogLevel::warning, "engine", peer->desc.key,
              " could not use a message of ours: ", failure->reason);
  } else if (options_.handler != nullptr) {
    options_.handler->on_message(peer, std::move(*message), std::move(payload));
  }
}

}  // namespace stagewire::engine
