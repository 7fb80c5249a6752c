#include "backends/local/local_endpoint.hpp"

#include <cstring>

namespace stagewire::backends::local {
namespace {

bool inside(std::uint64_t offset, std::uint64_t size, std::uint64_t whole) {
  return offset <= whole && size <= whole - offset;
}

}  // namespace

LocalRegistration::LocalRegistration(std::shared_ptr<Core> core, std::shared_ptr<Region> region)
    : core_(std::move(core)),
      region_(std::move(region)),
      id_(core_->add_region(region_)),
      key_(to_bytes(KeyFields{kKeyMagic, core_->id, id_, region_->token, region_->memory.size,
                              static_cast<std::uint64_t>(region_->access)})) {}

LocalRegistration::~LocalRegistration() {
  core_->remove_region(id_);
  const std::unique_lock lock(region_->in_use);
  region_->alive = false;
}

LocalEndpoint::LocalEndpoint(const BackendOptions& options, std::shared_ptr<Core> own,
                             std::shared_ptr<Core> peer)
    : max_message_(options.message_ring_size / 4),
      peer_(std::move(peer)),
      link_(std::make_shared<Link>(std::move(own), options.message_ring_size, options.payload_slots,
                                   options.payload_slot_size)) {
  peer_->push({.kind = Item::Kind::arrived, .link = link_, .bytes = {}, .payload = {}}, true);
}

LocalEndpoint::~LocalEndpoint() {
  peer_->push({.kind = Item::Kind::lost, .link = link_, .bytes = {}, .payload = {}}, true);
}

std::optional<Status> LocalEndpoint::status() const {
  if (peer_->closed())
    return Status(base::error(ErrorCode::unavailable, "the peer in this process has closed"));
  return Status();
}

Result<std::shared_ptr<Region>> LocalEndpoint::find_region(const KeyFields& key) const {
  auto region = peer_->find_region(key[2]);
  if (key[1] != peer_->id || !region || region->token != key[3]) {
    return base::error(ErrorCode::not_found, "region ", key[2], " is not registered (any more)");
  }
  return region;
}

Result<std::unique_ptr<RemoteRegion>> LocalEndpoint::import(std::span<const std::byte> remote_key) {
  const auto key = from_bytes<KeyFields>(remote_key, kKeyMagic, "local remote key");
  if (!key) return key.error();
  if ((*key)[5] == 0)
    return base::error(ErrorCode::permission, "region ", (*key)[2], " is for local use only");
  return std::unique_ptr<RemoteRegion>(std::make_unique<LocalRemoteRegion>(find_region(*key), (*key)[4]));
}

Result<Posted> LocalEndpoint::post(const WorkRequest& request) {
  if (const auto up = status(); !*up) return up->error();
  if (request.local == nullptr || request.remote == nullptr) {
    return base::error(ErrorCode::invalid_argument, "request ", request.id, " names no regions");
  }
  const auto& imported = static_cast<const LocalRemoteRegion*>(request.remote)->region();
  if (!imported) return imported.error();
  Region& remote = **imported;
  const bool reads = request.operation == Operation::read;
  if (reads ? !allows_read(remote.access) : !allows_write(remote.access)) {
    return base::error(ErrorCode::permission, "the region is not registered for remote ",
                       reads ? "read" : "write");
  }
  const MemoryRegion& local = static_cast<const LocalRegistration*>(request.local)->region().memory;
  for (const Segment& s : request.segments) {
    if (!inside(s.local_offset, s.size, local.size) || !inside(s.remote_offset, s.size, remote.memory.size)) {
      return base::error(ErrorCode::invalid_argument, "a segment of ", s.size, " bytes at ", s.local_offset,
                         " of ", local.size, " here and ", s.remote_offset, " of ", remote.memory.size,
                         " there");
    }
  }
  if (request.notification && !link_->add(0)) {
    peer_->wake.wake();
    return Posted::full;
  }
  {
    const std::shared_lock lock(remote.in_use);
    if (!remote.alive) return base::error(ErrorCode::not_found, "the region is not registered any more");
    for (const Segment& s : request.segments) {
      if (s.size == 0) continue;
      std::byte* here = local.data + s.local_offset;
      std::byte* there = remote.memory.data + s.remote_offset;
      std::memcpy(reads ? here : there, reads ? there : here, s.size);
    }
  }
  if (request.notification) {
    peer_->push({.kind = Item::Kind::notification,
                 .link = link_,
                 .bytes = {},
                 .notification = *request.notification,
                 .payload = {}},
                true);
  }
  return Posted::completed;
}

PayloadSlot LocalEndpoint::reserve(std::size_t size) {
  if (peer_->closed()) return {};
  const PayloadSlot slot = link_->reserve(size);
  if (slot.bytes.empty()) peer_->wake.wake();
  return slot;
}

void LocalEndpoint::abandon(const PayloadSlot& slot) {
  if (!slot.bytes.empty()) link_->give_back(slot.index);
}

Result<Posted> LocalEndpoint::send(std::span<const std::byte> message, const PayloadSlot& slot, bool urgent) {
  if (const auto up = status(); !*up) return up->error();
  if (message.size() > max_message_) {
    return base::error(ErrorCode::too_large, "a message of ", message.size(), " bytes; at most ",
                       max_message_, " fit: raise message_ring_size");
  }
  if (!link_->add(message.size())) {
    peer_->wake.wake();
    return Posted::full;
  }
  peer_->push({.kind = Item::Kind::message,
               .link = link_,
               .bytes = {message.begin(), message.end()},
               .payload = link_->lend(slot)},
              urgent || link_->crowded());
  return Posted::completed;
}

}  // namespace stagewire::backends::local
