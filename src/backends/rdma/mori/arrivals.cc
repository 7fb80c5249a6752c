#include "backends/rdma/mori/arrivals.hpp"

#include <limits>

#include "base/clock.hpp"
#include "base/text.hpp"

namespace stagewire::backends::rdma::mori {

void Arrivals::joined(const std::string& key) {
  ++pairs_;
  if (peers_[key].pairs++ == 0) events_.push_back({Event::Kind::joined, key, 0, {}});
}

void Arrivals::left(const std::string& key, const std::string& why) {
  --pairs_;
  const auto peer = peers_.find(key);
  if (--peer->second.pairs > 0) return;
  peers_.erase(peer);
  events_.push_back({Event::Kind::left, key, 0, why});
}

void Arrivals::notified(const std::string& key, const Notification& notification) {
  auto& unfinished = peers_.at(key).unfinished;
  auto known = unfinished.find(notification.transfer);
  // An id that is used again before its first use has ended: that one never will.
  const bool again =
      known != unfinished.end() && (known->second.count != notification.count ||
                                    known->second.came.test(static_cast<std::size_t>(notification.index)));
  if (again) {
    complain(key, base::text("transfer ", notification.transfer, " begins anew before it has arrived"));
    unfinished.erase(known);
    known = unfinished.end();
  }
  if (known == unfinished.end()) {
    if (unfinished.size() >= kMostUnfinished) {
      return complain(key, base::text(unfinished.size(), " transfers have arrived in part; transfer ",
                                      notification.transfer, " is not counted"));
    }
    known = unfinished.emplace(notification.transfer, Unfinished{{}, notification.count}).first;
  }
  known->second.came.set(static_cast<std::size_t>(notification.index));
  if (known->second.came.count() < static_cast<std::size_t>(notification.count)) return;
  unfinished.erase(known);
  if (notification.transfer > std::numeric_limits<std::uint32_t>::max()) {
    return complain(key, base::text("transfer ", notification.transfer, " has no id of 32 bits"));
  }
  events_.push_back({Event::Kind::notified, key, static_cast<std::uint32_t>(notification.transfer), {}});
}

void Arrivals::complain(const std::string& key, const std::string& text) {
  if (const auto held = complaints_.admit(base::steady_clock().now())) {
    base::log(LogLevel::warning, "mori", key, ": ", text, "; ", *held, " such lines held back");
  }
}

std::size_t Arrivals::tell(const std::deque<Event>& events, EventSink& sink) {
  for (const Event& event : events) {
    if (event.kind == Event::Kind::joined) {
      tokens_[event.key] = sink.on_peer_arrived({}, event.key);
    } else if (event.kind == Event::Kind::notified) {
      sink.on_notification(tokens_.at(event.key), event.transfer);
    } else {
      sink.on_peer_lost(tokens_.at(event.key), Error(ErrorCode::unavailable, event.text));
      tokens_.erase(event.key);
    }
  }
  return events.size();
}

}  // namespace stagewire::backends::rdma::mori
