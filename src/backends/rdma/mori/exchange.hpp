// One TCP connection, over which MORI-IO's engines say one thing and hear one thing.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "backends/rdma/mori/messages.hpp"
#include "base/clock.hpp"
#include "base/unique_fd.hpp"

namespace stagewire::backends::rdma::mori {

/// Never blocks. Not thread-safe.
class Exchange {
 public:
  /// Of a connection that was accepted.
  explicit Exchange(base::UniqueFd socket) : socket_(std::move(socket)) {}
  /// Begins to connect. `invalid_argument` for a host that is no IPv4 address in digits.
  static Result<Exchange> call(const std::string& host, int port);

  int fd() const { return socket_.get(); }
  /// What send() is to send.
  void put(const Message& message) { outgoing_ = encode(message); }
  /// True when all of it is out, or there is nothing.
  Result<bool> send();
  /// True when a whole frame is there. `corrupt` for one that cannot be, `unavailable` when the other side
  /// has closed before.
  Result<bool> receive();
  /// Of the whole frame.
  Result<Message> message() const { return decode(incoming_); }

 private:
  base::UniqueFd socket_;
  std::vector<std::byte> outgoing_;
  std::size_t sent_ = 0;
  std::vector<std::byte> incoming_;
};

}  // namespace stagewire::backends::rdma::mori
