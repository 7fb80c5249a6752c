// libzmq's sockets as the control plane uses them: without blocking, and with errno instead of exceptions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <zmq.hpp>

namespace stagewire::control {

std::span<const std::byte> bytes_of(const zmq::message_t& message);

/// Takes one whole message (frames of one message arrive together) and returns how many frames it had, 0 when
/// there is none. Frames beyond the third are thrown away. Receiving until there is none also empties the
/// socket's mailbox, after which its ZMQ_FD signals again.
std::size_t receive_frames(zmq::socket_t& socket, std::array<zmq::message_t, 3>& frames);

/// Returns errno, 0 when it was sent.
int send_frame(zmq::socket_t& socket, const void* data, std::size_t size, int flags);

/// Sends [empty][payload]. Once the first frame of a message is taken, the others are.
int send_enveloped(zmq::socket_t& socket, std::span<const std::byte> payload);

/// Reading ZMQ_EVENTS swallows the wake-up of ZMQ_FD: whoever sees true must see to it that somebody
/// receives.
bool has_input(zmq::socket_t& socket);

constexpr int kHandshakeFailed = ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                                 ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;

/// What libzmq tells of the connections of one socket. It ends before that socket does.
class Monitor {
 public:
  /// `events`: ZMQ_EVENT_... to be told; `number`: another one for each monitor of a context. Throws
  /// zmq::error_t.
  Monitor(zmq::context_t& context, zmq::socket_t& watched, int events, std::uint64_t number);
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;
  ~Monitor();

  int fd() const { return fd_; }  ///< edge-triggered, as ZMQ_FD is; libzmq's
  bool has_event() { return has_input(events_); }
  /// The next event that there is.
  std::optional<int> next();

 private:
  zmq::socket_t& watched_;
  zmq::socket_t events_;
  int fd_ = -1;
};

}  // namespace stagewire::control
