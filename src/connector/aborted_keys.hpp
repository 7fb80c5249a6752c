// What is said about keys to whoever asks for them later. Bounded: the oldest are forgotten.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/recent_map.hpp"

namespace stagewire::connector {

/// Keys that the sender aborted before anybody asked for them, and why, for the first who asks; unless the
/// receiver gave the key up by itself, before or after: then whoever asks later means another payload.
class AbortedKeys {
 public:
  void aborted(std::string_view key, std::string_view reason) {
    if (!given_up_.take(key)) aborted_.add(key, std::string(reason));
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
  static constexpr std::size_t kMost = 4096;
  struct GivenUp {};
  base::RecentMap<std::string, kMost> aborted_;  ///< why; told once, as a key has one receiver
  base::RecentMap<GivenUp, kMost> given_up_;
};

}  // namespace stagewire::connector
