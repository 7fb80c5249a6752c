#include "pipeline/control_channel.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "base/text.hpp"

namespace stagewire::pipeline {
namespace {

constexpr std::size_t kMaxMessageSize = 64 * 1024;

Error gone() {
  return base::error(ErrorCode::unavailable, "the other end of the control channel is gone");
}

}  // namespace

Result<std::pair<ControlChannel, base::UniqueFd>> ControlChannel::create() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return base::system_error("socketpair for a stage's control channel", errno);
  }
  return std::pair(ControlChannel(base::UniqueFd(ends[0])), base::UniqueFd(ends[1]));
}

Status ControlChannel::send(const Message& message, bool wait) const {
  const std::string text = encode_message(message);
  if (text.size() > kMaxMessageSize) {
    return base::error(ErrorCode::too_large, "a control message of ", text.size(), " bytes, ",
                       kMaxMessageSize, " at most");
  }
  const int flags = MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT);
  ssize_t sent = -1;
  do {
    sent = ::send(socket_.get(), text.data(), text.size(), flags);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return {};
  if (errno == EAGAIN) return base::error(ErrorCode::exhausted, "the control channel is full");
  if (errno == EPIPE || errno == ECONNRESET) return gone();
  return base::system_error("sending on a control channel", errno);
}

Result<std::optional<Message>> ControlChannel::receive() const {
  std::string text(kMaxMessageSize, '\0');
  ssize_t size = -1;
  do {
    size = ::recv(socket_.get(), text.data(), text.size(), MSG_DONTWAIT | MSG_TRUNC);
  } while (size < 0 && errno == EINTR);
  if (size < 0 && errno == EAGAIN) return std::optional<Message>();
  if (size == 0 || (size < 0 && errno == ECONNRESET)) return gone();
  if (size < 0) return base::system_error("receiving on a control channel", errno);
  if (static_cast<std::size_t>(size) > kMaxMessageSize) {
    return base::error(ErrorCode::corrupt, "a control message of ", size, " bytes, ", kMaxMessageSize,
                       " at most");
  }
  text.resize(static_cast<std::size_t>(size));
  auto message = decode_message(text);
  if (!message.ok()) return message.error();
  return std::optional<Message>(std::move(*message));
}

void ControlChannel::stop_receiving() const {
  ::shutdown(socket_.get(), SHUT_RD);
}

}  // namespace stagewire::pipeline
