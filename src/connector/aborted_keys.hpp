// What is said about keys to whoever asks for them later. Bounded: the oldest are forgotten.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "base/string_map.hpp"

namespace stagewire::connector {

/// Keys with a word to each, which is told once: a key has one receiver.
class KeyNotes {
 public:
  void add(std::string_view key, std::string_view word) {
    if (!notes_.insert_or_assign(std::string(key), std::string(word)).second) return;
    order_.emplace_back(key);
    if (order_.size() <= kMost) return;
    notes_.erase(order_.front());
    order_.pop_front();
  }
  std::optional<std::string> take(std::string_view key) {
    const auto place = notes_.find(key);
    if (place == notes_.end()) return std::nullopt;
    std::string word = std::move(place->second);
    notes_.erase(place);
    std::erase(order_, key);
    return word;
  }

 private:
  static constexpr std::size_t kMost = 4096;
  base::StringMap<std::string> notes_;
  std::deque<std::string> order_;
};

/// Keys that the sender aborted before anybody asked for them, and why, for the first who asks; unless the
/// receiver gave the key up by itself, before or after: then whoever asks later means another payload.
class AbortedKeys {
 public:
  void aborted(std::string_view key, std::string_view reason) {
    if (!given_up_.take(key)) aborted_.add(key, reason);
  }
  void given_up(std::string_view key) { given_up_.add(key, {}); }
  /// Somebody asks: the reason, if the key was aborted.
  std::optional<std::string> ask(std::string_view key) {
    given_up_.take(key);
    return aborted_.take(key);
  }
  /// The receiver gives it up: whether the sender had done so, too, so that neither has to be told.
  bool settle(std::string_view key) { return aborted_.take(key).has_value(); }
  /// The key is put again, or cleaned up.
  void forget(std::string_view key) { aborted_.take(key); }
  /// What the receiver gave up is gone.
  void forget_given_up(std::string_view key) { given_up_.take(key); }

 private:
  KeyNotes aborted_, given_up_;
};

}  // namespace stagewire::connector
