// Which instances of an engine are over: a hello of theirs that comes late makes nobody known again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

namespace stagewire::engine {

/// Remembers the last kRemembered instances that were met. Not thread-safe.
class EarlierInstances {
 public:
  static constexpr std::size_t kRemembered = 1024;

  /// `instance` is the one of `key` that counts; every other of that key is over.
  void set_current(std::string_view key, std::uint64_t instance) {
    std::erase_if(entries_, [&](const Entry& entry) { return entry.is(key, instance); });
    for (Entry& entry : entries_) entry.over = entry.over || entry.key == key;
    entries_.push_back({std::string(key), instance, false});
    if (entries_.size() > kRemembered) entries_.pop_front();
  }

  /// It was deregistered, or has said goodbye.
  void end(std::string_view key, std::uint64_t instance) {
    for (Entry& entry : entries_) entry.over = entry.over || entry.is(key, instance);
  }

  bool is_over(std::string_view key, std::uint64_t instance) const {
    return std::any_of(entries_.begin(), entries_.end(),
                       [&](const Entry& entry) { return entry.over && entry.is(key, instance); });
  }

 private:
  struct Entry {
    std::string key;
    std::uint64_t instance = 0;
    bool over = false;

    bool is(std::string_view other_key, std::uint64_t other_instance) const {
      return instance == other_instance && key == other_key;
    }
  };
  std::deque<Entry> entries_;  ///< the one met last at the end
};

}  // namespace stagewire::engine
