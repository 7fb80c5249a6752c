// The pipe between the pipeline and one stage process: whole messages both ways, over a pair of sockets that
// keep message boundaries.
#pragma once

#include <optional>
#include <utility>

#include "base/unique_fd.hpp"
#include "pipeline/stage_messages.hpp"

namespace stagewire::pipeline {

/// Sending and receiving may happen on two threads at once; several threads may send.
class ControlChannel {
 public:
  ControlChannel() = default;
  explicit ControlChannel(base::UniqueFd socket) : socket_(std::move(socket)) {}

  /// Both ends; the second one is for the other process. Closed on exec.
  static Result<std::pair<ControlChannel, base::UniqueFd>> create();

  /// Readable when there is a message, or the other end is gone.
  int fd() const { return socket_.get(); }

  /// `wait`: blocks while the other process does not read and 200 KiB lie there. Else `exhausted`.
  /// `unavailable`: the other end is gone.
  Status send(const Message& message, bool wait) const;
  /// nullopt = nothing there now. `unavailable`: the other end is gone, and what it had sent has been
  /// received.
  Result<std::optional<Message>> receive() const;
  /// From now on receive() says `unavailable`, and fd() is readable for ever.
  void stop_receiving() const;

 private:
  base::UniqueFd socket_;
};

}  // namespace stagewire::pipeline
