#include "control/zmq_socket.hpp"

#include <cerrno>
#include <cstring>
#include <string>

#include "base/check.hpp"
#include "base/text.hpp"

namespace stagewire::control {
namespace {

/// Takes one frame that is there.
bool receive(zmq::socket_t& socket, zmq::message_t& frame) {
  while (zmq_msg_recv(frame.handle(), socket.handle(), ZMQ_DONTWAIT) < 0) {
    if (errno != EINTR) return false;
  }
  return true;
}

}  // namespace

std::span<const std::byte> bytes_of(const zmq::message_t& message) {
  return {message.data<std::byte>(), message.size()};
}

std::size_t receive_frames(zmq::socket_t& socket, std::array<zmq::message_t, 3>& frames) {
  std::size_t count = 0;
  for (bool more = true; more; ++count) {
    zmq::message_t surplus;
    zmq::message_t& frame = count < frames.size() ? frames[count] : surplus;
    if (!receive(socket, frame)) return count;
    more = frame.more();
  }
  return count;
}

int send_frame(zmq::socket_t& socket, const void* data, std::size_t size, int flags) {
  while (zmq_send(socket.handle(), data, size, ZMQ_DONTWAIT | flags) < 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

int send_enveloped(zmq::socket_t& socket, std::span<const std::byte> payload) {
  if (const int failure = send_frame(socket, nullptr, 0, ZMQ_SNDMORE); failure != 0) return failure;
  return send_frame(socket, payload.data(), payload.size(), 0);
}

bool has_input(zmq::socket_t& socket) {
  int events = 0;
  std::size_t size = sizeof events;
  while (zmq_getsockopt(socket.handle(), ZMQ_EVENTS, &events, &size) != 0) {
    if (errno != EINTR) return false;
  }
  return (events & ZMQ_POLLIN) != 0;
}

Monitor::Monitor(zmq::context_t& context, zmq::socket_t& watched, int events, std::uint64_t number)
    : watched_(watched), events_(context, zmq::socket_type::pair) {
  const std::string endpoint = base::text("inproc://events-", number);
  if (zmq_socket_monitor(watched.handle(), endpoint.c_str(), events) != 0) throw zmq::error_t();
  events_.set(zmq::sockopt::linger, 0);
  events_.connect(endpoint);
  fd_ = events_.get(zmq::sockopt::fd);
}

// libzmq's I/O thread waits for ever, and with it every peer, when it has an event to tell and the monitor's
// reader is gone: the telling has to end first.
Monitor::~Monitor() {
  zmq_socket_monitor(watched_.handle(), nullptr, 0);
}

std::optional<int> Monitor::next() {
  zmq::message_t event, where;
  if (!receive(events_, event) || !receive(events_, where)) return std::nullopt;
  std::uint16_t kind = 0;
  STAGEWIRE_CHECK(event.size() >= sizeof kind, "libzmq's monitor events begin with 16 bits");
  std::memcpy(&kind, event.data(), sizeof kind);
  return kind;
}

}  // namespace stagewire::control
