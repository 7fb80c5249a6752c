#include "backends/rdma/mori/exchange.hpp"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>

#include "base/text.hpp"

namespace stagewire::backends::rdma::mori {
namespace {

bool would_block(int problem) {
  return problem == EAGAIN || problem == EWOULDBLOCK || problem == EINPROGRESS || problem == ENOTCONN;
}

}  // namespace

Result<Exchange> Exchange::call(const std::string& host, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) {
    return base::error(ErrorCode::invalid_argument, "'", host,
                       "' is no IPv4 address in digits, which MORI-IO's engines are called by");
  }
  base::UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return base::system_error("socket", errno);
  const int on = 1;
  static_cast<void>(::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  if (::connect(socket.get(), generic, sizeof address) != 0 && errno != EINPROGRESS) {
    return base::error(ErrorCode::unavailable, "connect to ", host, ":", port, ": ", base::errno_text(errno));
  }
  return Exchange(std::move(socket));
}

Result<bool> Exchange::send() {
  while (sent_ < outgoing_.size()) {
    const ssize_t count =
        ::send(socket_.get(), outgoing_.data() + sent_, outgoing_.size() - sent_, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && would_block(errno)) return false;
    if (count < 0) return base::error(ErrorCode::unavailable, base::errno_text(errno));
    sent_ += static_cast<std::size_t>(count);
  }
  return true;
}

Result<bool> Exchange::receive() {
  for (;;) {
    std::size_t wanted = kHeaderSize;
    if (incoming_.size() >= kHeaderSize) {
      const auto body = body_size(std::span(incoming_).first(kHeaderSize));
      if (!body) return body.error();
      wanted += *body;
      if (incoming_.size() == wanted) return true;
    }
    const std::size_t begin = incoming_.size();
    incoming_.resize(wanted);
    const ssize_t count = ::recv(socket_.get(), incoming_.data() + begin, wanted - begin, 0);
    const int problem = errno;
    incoming_.resize(begin + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    if (count > 0 || (count < 0 && problem == EINTR)) continue;
    if (count < 0 && would_block(problem)) return false;
    return base::error(ErrorCode::unavailable, count == 0
                                                   ? "the other side closed the connection without an answer"
                                                   : base::errno_text(problem));
  }
}

}  // namespace stagewire::backends::rdma::mori
