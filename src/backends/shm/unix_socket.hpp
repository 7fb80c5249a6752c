// Abstract Unix sockets that keep message boundaries (SOCK_SEQPACKET) and carry file descriptors. They have
// no file and vanish with their process. Nothing here blocks.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "stagewire/result.hpp"

namespace stagewire::backends::shm {

/// Longest message that is ever sent.
constexpr std::size_t kMaxSocketMessage = 4096;
constexpr std::size_t kMaxSocketFds = 2;

Result<base::UniqueFd> listen_on(const std::string& name);

/// `unavailable` when nobody listens or too many wait to be accepted.
Result<base::UniqueFd> connect_to(const std::string& name);

/// An accepted connection; an empty descriptor when none waits.
Result<base::UniqueFd> accept_from(int listener);

/// `permission` unless the process at the other end runs as this one's user.
Status check_same_user(int socket);

enum class Sent { yes, later };

/// `later`: the peer does not read just now. `unavailable` when it is gone.
Result<Sent> send_packet(int socket, std::span<const std::byte> bytes, std::span<const int> fds = {});

struct Packet {
  enum class Kind { none, data, end } kind = Kind::none;  ///< end: the peer is gone
  std::vector<std::byte> bytes;
  std::array<base::UniqueFd, kMaxSocketFds> fds;
};

/// `corrupt` for a message that is too long or carries too many descriptors.
Result<Packet> receive_packet(int socket);

}  // namespace stagewire::backends::shm
