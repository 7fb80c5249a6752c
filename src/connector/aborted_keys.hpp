// Keys that were aborted before anybody asked for them, and why: for the first who asks. Bounded: the oldest
// are forgotten.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "base/string_map.hpp"

namespace stagewire::connector {

class AbortedKeys {
 public:
  void add(std::string_view key, std::string_view reason) {
    if (!reasons_.insert_or_assign(std::string(key), std::string(reason)).second) return;
    order_.emplace_back(key);
    if (order_.size() <= kMost) return;
    reasons_.erase(order_.front());
    order_.pop_front();
  }
  /// Told once: each key has one receiver.
  std::optional<std::string> take(std::string_view key) {
    const auto place = reasons_.find(key);
    if (place == reasons_.end()) return std::nullopt;
    std::string reason = std::move(place->second);
    reasons_.erase(place);
    std::erase(order_, key);
    return reason;
  }

 private:
  static constexpr std::size_t kMost = 4096;
  base::StringMap<std::string> reasons_;
  std::deque<std::string> order_;
};

}  // namespace stagewire::connector
