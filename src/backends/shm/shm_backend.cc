#include "backends/shm/shm_backend.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "backend/builtin_backends.hpp"
#include "backends/shm/address.hpp"
#include "backends/shm/shm_endpoint.hpp"
#include "base/check.hpp"
#include "base/text.hpp"

namespace stagewire::backends {

Result<std::unique_ptr<Backend>> create_shm(const BackendOptions& options) {
  return shm::ShmBackend::create(options);
}

namespace shm {
namespace {

Capabilities capabilities_of(const Geometry& geometry) {
  Capabilities c;
  c.cpu_memory = true;
  c.same_host_only = true;
  c.maps_remote = true;
  c.max_request_size = std::numeric_limits<std::uint64_t>::max();
  c.max_message_size = geometry.max_message();
  c.max_payload_size = geometry.slots > 0 ? geometry.slot_size : 0;
  c.cost_us = 0.5;
  c.gb_per_s = 10;
  return c;
}

// Rounded up to what the ring can have; check() refuses what is beyond its limits.
Geometry geometry_of(const BackendOptions& options) {
  Geometry g;
  g.ring_size = std::bit_ceil(
      std::clamp<std::uint64_t>(options.message_ring_size, Geometry::kPage, Geometry::kMaxRing * 2));
  g.slots = static_cast<std::uint32_t>(std::min<std::size_t>(options.payload_slots, Geometry::kMaxSlots + 1));
  g.slot_size = static_cast<std::uint32_t>(
      (std::min<std::size_t>(options.payload_slot_size, Geometry::kMaxSlotSize + 1) + 63) / 64 * 64);
  return g;
}

}  // namespace

Result<std::unique_ptr<Backend>> ShmBackend::create(const BackendOptions& options) {
  const Geometry geometry = geometry_of(options);
  const Status sane = geometry.check();
  if (!sane) return sane.error();
  const auto address = make_address();
  if (!address) return address.error();
  auto backend = std::make_unique<ShmBackend>(options, geometry, *address);
  const Status opened = backend->open();
  if (!opened) return opened.error();
  return std::unique_ptr<Backend>(std::move(backend));
}

ShmBackend::ShmBackend(const BackendOptions& options, const Geometry& geometry, const Address& address)
    : engine_key_(options.engine_key),
      geometry_(geometry),
      address_(address),
      packed_address_(pack(address)),
      capabilities_(capabilities_of(geometry)),
      regions_(std::make_shared<RegionTable>(address.socket)) {}

Status ShmBackend::open() {
  if (Status status = epoll_.open(); !status) return status;
  if (Status status = wake_.open(); !status) return status;
  if (Status status = epoll_.add(wake_.fd(), {Source::own_wake, 0}); !status) return status;
  auto listener = listen_on(address_.socket);
  if (!listener) return listener.error();
  listener_ = std::move(*listener);
  return epoll_.add(listener_.get(), {Source::listener, 0});
}

ShmBackend::~ShmBackend() {
  const std::lock_guard lock(outboxes_mutex_);
  STAGEWIRE_CHECK(outboxes_.empty(), "endpoints are destroyed before their backend");
}

Status ShmBackend::reaches(std::span<const std::byte> peer_address) const {
  const auto peer = unpack_address(peer_address);
  return peer ? can_reach(address_, *peer) : Status(peer.error());
}

Result<std::unique_ptr<Registration>> ShmBackend::register_region(const MemoryRegion& region, Access access) {
  return regions_->add(region, access);
}

Result<std::unique_ptr<Endpoint>> ShmBackend::connect(std::span<const std::byte> peer_address) {
  const auto peer = unpack_address(peer_address);
  if (!peer) return peer.error();
  const Status reachable = can_reach(address_, *peer);
  if (!reachable) return reachable.error();
  // Held until it is in the table: progress() may be handling its first event already.
  const std::lock_guard lock(outboxes_mutex_);
  const std::uint32_t id = next_outbox_++;
  auto outbox = Outbox::connect({address_, epoll_, worker_, completions_, late_notifications_}, id, *peer);
  if (!outbox) return outbox.error();
  outboxes_[id] = *outbox;
  return std::unique_ptr<Endpoint>(std::make_unique<ShmEndpoint>(*this, std::move(*outbox)));
}

void ShmBackend::forget(std::uint32_t outbox) {
  const std::lock_guard lock(outboxes_mutex_);
  outboxes_.erase(outbox);
}

std::shared_ptr<Outbox> ShmBackend::find_outbox(std::uint32_t id) {
  const std::lock_guard lock(outboxes_mutex_);
  const auto found = outboxes_.find(id);
  return found == outboxes_.end() ? nullptr : found->second;
}

Inbox* ShmBackend::find_inbox(std::uint32_t id) {
  for (const auto& inbox : inboxes_) {
    if (inbox->id() == id) return inbox.get();
  }
  return nullptr;
}

std::size_t ShmBackend::progress(EventSink& sink, bool messages_only) {
  if (armed_) disarm();
  std::size_t events = 0;
  if (!messages_only) events += handle_events(sink);
  events += deliver_messages(sink);
  if (late_notifications_.load(std::memory_order_relaxed) > 0) events += send_late_notifications();
  events += completions_.deliver(sink);
  return events;
}

std::size_t ShmBackend::handle_events(EventSink& sink) {
  std::size_t count = accept_again_ ? accept_peers() : 0;
  std::array<Event, 64> buffer;
  for (const Event& event : epoll_.take(buffer)) {
    switch (event.source) {
      case Source::own_wake:
      case Source::inbox_doorbell:
        break;  // what they announce is looked at anyway
      case Source::listener:
        count += accept_peers();
        break;
      case Source::outbox_socket:
        if (const auto outbox = find_outbox(event.id)) count += outbox->serve_socket();
        break;
      case Source::inbox_socket:
        if (Inbox* inbox = find_inbox(event.id)) {
          const Status served = inbox->serve_socket(sink, count);
          if (!served) drop(event.id, sink, served.error());
        }
        break;
    }
  }
  return count;
}

std::size_t ShmBackend::accept_peers() {
  std::size_t count = 0;
  accept_again_ = false;
  for (;;) {
    auto connection = accept_from(listener_.get());
    if (!connection) {
      accept_again_ = true;
      if (const auto held = dropped_log_.admit(base::steady_clock().now())) {
        base::log(LogLevel::warning, "shm", engine_key_,
                  ": cannot accept a peer: ", connection.error().message(),
                  "; raise the limit of open files (ulimit -n)");
      }
      return count;
    }
    if (!*connection) return count;
    ++count;
    Status status = check_same_user(connection->get());
    if (status.ok() && inboxes_.size() >= kMaxInboxes) {
      status = base::error(ErrorCode::exhausted, "there are ", inboxes_.size(), " peers already");
    }
    const std::uint32_t id = next_inbox_++;
    if (status.ok()) status = epoll_.add(connection->get(), {Source::inbox_socket, id});
    if (status.ok()) {
      inboxes_.push_back(std::make_unique<Inbox>(Inbox::Host{address_, geometry_, *regions_, epoll_}, id,
                                                 std::move(*connection)));
      continue;
    }
    const Refusal refusal{static_cast<std::uint32_t>(status.error().code()), status.error().message()};
    if (!send_packet(connection->get(), pack(SocketMessage(refusal)))) continue;
  }
}

std::size_t ShmBackend::deliver_messages(EventSink& sink) {
  std::size_t events = 0;
  for (std::size_t i = 0; i < inboxes_.size();) {
    Inbox& inbox = *inboxes_[i];
    const Status delivered = inbox.deliver(sink, kMessagesPerTurn, events);
    if (delivered) {
      ++i;
    } else {
      drop(inbox.id(), sink, delivered.error());
      ++events;
    }
  }
  return events;
}

// What the peer sent before it went is delivered first: it may have been its farewell.
void ShmBackend::drop(std::uint32_t id, EventSink& sink, const Error& reason) {
  const auto found =
      std::find_if(inboxes_.begin(), inboxes_.end(), [&](const auto& inbox) { return inbox->id() == id; });
  const std::unique_ptr<Inbox> inbox = std::move(*found);
  inboxes_.erase(found);
  if (reason.code() == ErrorCode::unavailable) {
    std::size_t delivered = 0;
    const Status farewell = inbox->deliver(sink, geometry_.ring_size / sizeof(RecordHeader), delivered);
    if (!farewell) return inbox->lose(sink, farewell.error());
  } else {
    if (const auto held = dropped_log_.admit(base::steady_clock().now())) {
      base::log(LogLevel::warning, "shm", engine_key_, ": dropped a peer: ", reason.message(), " (", *held,
                " such lines held back)");
    }
  }
  inbox->lose(sink, reason);
}

std::size_t ShmBackend::send_late_notifications() {
  std::vector<std::shared_ptr<Outbox>> outboxes;
  {
    const std::lock_guard lock(outboxes_mutex_);
    for (const auto& [id, outbox] : outboxes_) outboxes.push_back(outbox);
  }
  std::size_t events = 0;
  for (const auto& outbox : outboxes) events += outbox->send_late_notifications();
  return events;
}

// The flags first, then a last look at what they would have announced.
bool ShmBackend::arm() {
  armed_ = true;
  wake_.arm();
  const Armed how = wants_everything_.load() ? Armed::for_all : Armed::for_urgent;
  bool idle = completions_.empty();
  for (const auto& inbox : inboxes_) {
    inbox->arm(how);
    if (!inbox->empty()) idle = false;
  }
  return idle;
}

void ShmBackend::disarm() {
  armed_ = false;
  wake_.disarm();
  for (const auto& inbox : inboxes_) inbox->disarm();
}

void ShmBackend::want_everything(bool on) {
  wants_everything_.store(on);
}

}  // namespace shm
}  // namespace stagewire::backends
