#include "control/peer_complaints.hpp"

#include "base/clock.hpp"

namespace stagewire::control {
namespace {

template <typename... Parts>
void complain(base::LogLimiter& limiter, const Parts&... parts) {
  if (const auto held = limiter.admit(base::steady_clock().now())) {
    base::log(LogLevel::warning, "control", parts..., " (", *held, " like this before)");
  }
}

}  // namespace

void PeerComplaints::malformed(std::string_view from, std::size_t frame_count) {
  ++malformed_;
  complain(malformed_log_, "dropped a message of ", frame_count, " frames from ", from);
}

void PeerComplaints::no_handshake(std::string_view endpoint) {
  complain(handshake_log_, endpoint, " does not complete ZeroMQ's handshake");
}

void PeerComplaints::no_connection(const Error& error) {
  complain(connect_log_, error.to_string());
}

}  // namespace stagewire::control
