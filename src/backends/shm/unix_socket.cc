#include "backends/shm/unix_socket.hpp"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/text.hpp"

namespace stagewire::backends::shm {
namespace {

using base::UniqueFd;

struct Name {
  sockaddr_un address{};
  socklen_t size = 0;
};

Result<Name> abstract_name(const std::string& name) {
  Name result;
  // An abstract name starts with a zero byte and is not terminated.
  if (name.empty() || name.size() + 1 > sizeof result.address.sun_path) {
    return base::error(ErrorCode::corrupt, "a Unix socket's name of ", name.size(), " bytes; 1 to ",
                       sizeof result.address.sun_path - 1, " are possible");
  }
  result.address.sun_family = AF_UNIX;
  std::memcpy(result.address.sun_path + 1, name.data(), name.size());
  result.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return result;
}

Result<UniqueFd> new_socket() {
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return base::system_error("socket(AF_UNIX)", errno);
  return fd;
}

const sockaddr* generic(const Name& name) {
  return reinterpret_cast<const sockaddr*>(&name.address);
}

// Every descriptor is taken over, also those that are too many, so that none leaks.
void take_fds(msghdr& header, Packet& packet, bool& too_many) {
  std::size_t taken = 0;
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
      UniqueFd owned(fd);
      if (taken < packet.fds.size()) {
        packet.fds[taken++] = std::move(owned);
      } else {
        too_many = true;
      }
    }
  }
}

}  // namespace

Result<UniqueFd> listen_on(const std::string& name) {
  auto where = abstract_name(name);
  if (!where) return where.error();
  auto fd = new_socket();
  if (!fd) return fd;
  if (::bind(fd->get(), generic(*where), where->size) != 0) {
    return base::system_error(base::text("bind of the abstract Unix socket ", name), errno);
  }
  constexpr int kBacklog = 1024;
  if (::listen(fd->get(), kBacklog) != 0) return base::system_error(base::text("listen on ", name), errno);
  return fd;
}

Result<UniqueFd> connect_to(const std::string& name) {
  auto where = abstract_name(name);
  if (!where) return where.error();
  auto fd = new_socket();
  if (!fd) return fd;
  if (::connect(fd->get(), generic(*where), where->size) == 0) return fd;
  if (errno == ECONNREFUSED) {
    return base::error(ErrorCode::unavailable, "nobody listens on the Unix socket ", name,
                       ": the peer has ended");
  }
  if (errno == EAGAIN) {
    return base::error(ErrorCode::unavailable, "too many connections wait at the Unix socket ", name,
                       ": the peer does not accept them");
  }
  return base::system_error(base::text("connect to the Unix socket ", name), errno);
}

Result<UniqueFd> accept_from(int listener) {
  for (;;) {
    UniqueFd fd(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd) return fd;
    if (errno == EAGAIN) return UniqueFd();
    if (errno != EINTR && errno != ECONNABORTED) return base::system_error("accept on a Unix socket", errno);
  }
}

Status check_same_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return base::system_error("getsockopt(SO_PEERCRED)", errno);
  }
  if (peer.uid != ::geteuid()) {
    return base::error(ErrorCode::permission, "process ", peer.pid, " runs as user ", peer.uid,
                       ", this one as ", ::geteuid());
  }
  return {};
}

Result<Sent> send_packet(int socket, std::span<const std::byte> bytes, std::span<const int> fds) {
  iovec data{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxSocketFds * sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(c), fds.data(), fds.size_bytes());
  }
  for (;;) {
    if (::sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return Sent::yes;
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return Sent::later;
    if (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN) {
      return base::error(ErrorCode::unavailable, "the peer closed its Unix socket");
    }
    return base::system_error("sendmsg on a Unix socket", errno);
  }
}

Result<Packet> receive_packet(int socket) {
  std::array<std::byte, kMaxSocketMessage> buffer;
  // Room for more descriptors than a well-behaved peer sends: those that do not fit the kernel closes.
  alignas(cmsghdr) std::array<char, CMSG_SPACE((kMaxSocketFds + 1) * sizeof(int))> control{};
  iovec data{buffer.data(), buffer.size()};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  ssize_t size = 0;
  do {
    size = ::recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);
  Packet packet;
  if (size < 0 && errno == EAGAIN) return packet;
  if (size == 0 || (size < 0 && errno == ECONNRESET)) {
    packet.kind = Packet::Kind::end;
    return packet;
  }
  if (size < 0) return base::system_error("recvmsg on a Unix socket", errno);
  bool too_many = (header.msg_flags & MSG_CTRUNC) != 0;
  take_fds(header, packet, too_many);
  if (too_many || (header.msg_flags & MSG_TRUNC) != 0) {
    return base::error(ErrorCode::corrupt, "a message on a Unix socket with more than ", kMaxSocketMessage,
                       " bytes or ", kMaxSocketFds, " descriptors");
  }
  packet.kind = Packet::Kind::data;
  packet.bytes.assign(buffer.begin(), buffer.begin() + size);
  return packet;
}

}  // namespace stagewire::backends::shm
