// How engines meet, and how messages travel where no backend carries them: ZeroMQ, one ROUTER that is called and one
// DEALER for each peer that we call.
//
// One thread owns a ControlPlane (R17): every function but wait_fd() is called from that thread. Nothing blocks:
// sends that would are queued up to a limit, then fail. linger 0, socket limit raised, keepalive on.
// Frames on the wire: [empty][payload] from callers, [identity][empty][payload] at the ROUTER, as the original's REQ
// sockets send; any other bytes are counted, logged once in a while, and dropped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "stagewire/result.hpp"

namespace stagewire::control {

/// Who called us: the ROUTER's identity for that connection. Good until the caller disconnects.
using CallerId = std::string;
/// A peer that we called.
using DialId = std::uint64_t;

struct ControlOptions {
  std::string host;                     ///< as given by the user: an address, a name, "auto", IPv6 with or without []
  int port = 0;                         ///< 0 = any
  bool listen = true;
  std::size_t max_message_size = 256 * 1024;
  std::size_t send_queue = 4096;        ///< messages for each peer
  int heartbeat_ms = 1000;              ///< between stagewire ends; a silent peer is dropped after 5 of them
};

class ControlSink {
 public:
  virtual ~ControlSink() = default;
  virtual void on_call(const CallerId& caller, std::span<const std::byte> payload) = 0;
  virtual void on_answer(DialId dial, std::span<const std::byte> payload) = 0;
  /// The connection is up (again), or down. ZeroMQ goes on trying to reconnect until hang_up().
  virtual void on_connected(DialId dial) = 0;
  virtual void on_disconnected(DialId dial) = 0;
};

class ControlPlane {
 public:
  /// Binds. `conflict`: the port is taken; names the address and, when it can be found in /proc, the owner's pid and
  /// command. `invalid_argument`: the host does not resolve to an address of this machine.
  static Result<std::unique_ptr<ControlPlane>> create(const ControlOptions& options);
  virtual ~ControlPlane() = default;

  /// What to tell others: the address that was chosen and the port that was really bound. Empty and 0 when not
  /// listening. IPv6 without brackets.
  virtual const std::string& host() const = 0;
  virtual int port() const = 0;

  virtual Result<DialId> dial(const std::string& host, int port) = 0;
  virtual void hang_up(DialId dial) = 0;
  /// `exhausted` when the queue is full, `unavailable` for a caller that is gone.
  virtual Status send(DialId dial, std::span<const std::byte> payload) = 0;
  virtual Status answer(const CallerId& caller, std::span<const std::byte> payload) = 0;

  /// One descriptor for all sockets (an epoll set); readable when progress() may have something to do.
  virtual int wait_fd() const = 0;
  /// Receives whatever is there; returns the number of events. To be called after every send and whenever wait_fd()
  /// is readable, since ZMQ_FD is edge-triggered.
  virtual std::size_t progress(ControlSink& sink) = 0;
};

}  // namespace stagewire::control
