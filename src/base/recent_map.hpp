// A map by name that remembers only what was added last.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/string_map.hpp"

namespace stagewire::base {

/// At most `kMost` entries: with one more, the one that was added first is forgotten. Adding a name again
/// changes its value and not its place. Not thread-safe.
template <typename T, std::size_t kMost>
class RecentMap {
 public:
  void add(std::string_view name, T value) {
    if (!entries_.insert_or_assign(std::string(name), std::move(value)).second) return;
    order_.emplace_back(name);
    if (order_.size() <= kMost) return;
    entries_.erase(order_.front());
    order_.pop_front();
  }
  /// nullptr when there is none; valid until the next change.
  T* find(std::string_view name) {
    const auto place = entries_.find(name);
    return place == entries_.end() ? nullptr : &place->second;
  }
  /// The entry, which ends with this.
  std::optional<T> take(std::string_view name) {
    const auto place = entries_.find(name);
    if (place == entries_.end()) return std::nullopt;
    T value = std::move(place->second);
    entries_.erase(place);
    order_.erase(std::find(order_.begin(), order_.end(), name));
    return value;
  }

 private:
  StringMap<T> entries_;
  std::deque<std::string> order_;
};

}  // namespace stagewire::base
