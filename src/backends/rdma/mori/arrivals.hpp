// What peers have written and told us of, and the telling of it to the engine.
#pragma once

#include <bitset>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>

#include "backends/rdma/mori/messages.hpp"
#include "base/log.hpp"
#include "stagewire/backend.hpp"

namespace stagewire::backends::rdma::mori {

/// A transfer has arrived when a notification has come over each of its queue pairs. Nothing is kept of one
/// that has, nor of a peer that has gone.
class Arrivals {
 public:
  /// Guarded by the hub's mutex: a queue pair with this engine begins, a notification comes, the queue pair
  /// ends.
  void joined(const std::string& key);
  void notified(const std::string& key, const Notification& notification);
  void left(const std::string& key, const std::string& why);
  bool waiting() const { return !events_.empty(); }
  std::size_t pairs() const { return pairs_; }

  struct Event {
    enum class Kind { joined, notified, left } kind = Kind::joined;
    std::string key;
    std::uint32_t transfer = 0;
    std::string text;
  };
  std::deque<Event> take() { return std::exchange(events_, {}); }

  /// Of the thread that makes progress, without the mutex.
  std::size_t tell(const std::deque<Event>& events, EventSink& sink);

 private:
  static constexpr std::size_t kMostUnfinished = 4096;  ///< of one peer

  struct Unfinished {
    std::bitset<kMostPairs> came;
    std::int32_t count = 0;
  };
  struct Peer {
    std::size_t pairs = 0;
    std::unordered_map<std::uint64_t, Unfinished> unfinished;
  };
  void complain(const std::string& key, const std::string& text);

  std::map<std::string, Peer> peers_;
  std::size_t pairs_ = 0;
  std::deque<Event> events_;
  base::LogLimiter complaints_;
  std::map<std::string, EventSink::PeerToken> tokens_;  ///< progress only
};

}  // namespace stagewire::backends::rdma::mori
