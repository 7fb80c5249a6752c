// Notifications of peers' transfers: from the backend that brings them to whoever waits for one.
#include "base/log.hpp"
#include "base/text.hpp"
#include "engine/core.hpp"

namespace stagewire::engine {

void Core::notified(EventSink::PeerToken token, std::uint32_t id) {
  std::string key;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = arrived_.find(token); found != arrived_.end() && found->second) {
      key = found->second->desc.key;
    } else if (const auto named = named_.find(token); named != named_.end()) {
      key = named->second;
    }
  }
  if (key.empty()) return;
  const std::lock_guard lock(transfers_.mutex);
  // Keys of strangers are whatever they say.
  if (transfers_.inbound.size() >= TransferTable::kMaxInboundPeers && !transfers_.inbound.contains(key)) {
    base::log(LogLevel::warning, "engine", "notification ", id, " of ", key,
              " dropped: ", transfers_.inbound.size(), " other engines have sent some");
    return;
  }
  TransferTable::Inbound& inbound = transfers_.inbound[key];
  if (inbound.ids.size() >= TransferTable::kMaxInbound) {
    base::log(LogLevel::warning, "engine", "notification ", id, " of ", key, " dropped: ", inbound.ids.size(),
              " have not been popped");
    return;
  }
  inbound.ids.insert(id);
  const auto waiters = inbound.waiters.equal_range(id);
  for (auto it = waiters.first; it != waiters.second; ++it) it->second->set();
}

bool Core::pop_inbound(std::string_view peer_key, std::uint32_t id) {
  const std::lock_guard lock(transfers_.mutex);
  const auto inbound = transfers_.inbound.find(peer_key);
  if (inbound == transfers_.inbound.end()) return false;
  const auto found = inbound->second.ids.find(id);
  if (found == inbound->second.ids.end()) return false;
  inbound->second.ids.erase(found);
  return true;
}

// A restarted engine counts its transfers anew: what an earlier one has announced must not be taken for it.
void Core::forget_inbound(std::string_view peer_key) {
  const std::lock_guard lock(transfers_.mutex);
  const auto inbound = transfers_.inbound.find(peer_key);
  if (inbound != transfers_.inbound.end()) inbound->second.ids.clear();
}

Status Core::wait_inbound(std::string_view peer_key, std::uint32_t id, base::Deadline deadline) {
  const PeerPtr peer = find_peer(peer_key);
  while (true) {
    if (pop_inbound(peer_key, id)) return {};
    if (!peer && !hears_strangers_) {
      return base::error(ErrorCode::unavailable, "notification ", id, ": ", peer_key,
                         " is not a known engine");
    }
    base::Event event;
    {
      const std::lock_guard lock(transfers_.mutex);
      TransferTable::Inbound& inbound = transfers_.inbound[std::string(peer_key)];
      if (inbound.ids.contains(id)) continue;
      inbound.waiters.emplace(id, &event);
    }
    // Looked at after the event is in the table, where the peer's loss rings it.
    const bool rung = (peer && peer->lost) || wait(event, deadline);
    bool arrived = false;
    {
      const std::lock_guard lock(transfers_.mutex);
      TransferTable::Inbound& inbound = transfers_.inbound[std::string(peer_key)];
      std::erase_if(inbound.waiters, [&](const auto& entry) { return entry.second == &event; });
      arrived = inbound.ids.contains(id);
    }
    if (arrived) continue;
    if (peer && peer->lost) {
      return base::error(ErrorCode::unavailable, "notification ", id, ": ", peer_key,
                         " was lost before it came");
    }
    if (!rung) {
      return base::error(ErrorCode::timeout, "notification ", id, " of ", peer_key, " has not come");
    }
  }
}

}  // namespace stagewire::engine
