// What peers do wrong, told in the log once in a while, however often they do it (R25).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/log.hpp"
#include "stagewire/result.hpp"

namespace stagewire::control {

/// One thread at a time.
class PeerComplaints {
 public:
  /// A message of that many frames was dropped.
  void malformed(std::string_view from, std::size_t frame_count);
  void no_handshake(std::string_view endpoint);
  void no_connection(const Error& error);

  std::uint64_t malformed_count() const { return malformed_; }

 private:
  std::uint64_t malformed_ = 0;
  base::LogLimiter malformed_log_;
  base::LogLimiter handshake_log_;
  base::LogLimiter connect_log_;
};

}  // namespace stagewire::control
