// How engines meet, and how messages travel where no backend carries them: ZeroMQ, one ROUTER that is called
// and one DEALER for each peer that we call.
//
// Threads (R17): one thread at a time. A plane may pass from one thread to another under the owner's lock;
// wait_fd() alone may be called, and polled, from any thread. Nothing here blocks but create() with a name
// for a host.
//
// Frames on the wire: callers send [empty][payload] and the ROUTER sees [identity][empty][payload], as from
// the original's REQ sockets; [identity][payload] is taken as well. Anything else is counted, logged once in
// a while, and dropped. Bytes that are not ZeroMQ's, and frames above max_message_size, end their connection
// inside libzmq.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "stagewire/result.hpp"

namespace stagewire::control {

/// Who called us: the ROUTER's identity for that connection. A caller that connects again is another caller.
using CallerId = std::string;
/// A peer that we called.
using DialId = std::uint64_t;

struct ControlOptions {
  std::string host = {};  ///< as given by the user: an address, a name, "auto", IPv6 with or without []
  int port = 0;           ///< 0 = any
  bool listen = true;
  bool same_host_only = false;  ///< all peers are on this host: "auto" may fall back to loopback
  std::size_t max_message_size = 256 * 1024;
  std::size_t send_queue = 4096;  ///< messages for each peer
  /// A CURVE secret key that all engines of a deployment share, in a form that z85_secret_key() takes. Then
  /// every connection is encrypted, and nobody without the key gets a message in or out:
  /// for networks that others use too (R16). The original's peers cannot connect then. Empty = open.
  std::string secret_key = {};
  bool watch_callers = false;  ///< ControlSink::on_hang_up(), and a log line for callers with another secret
  int heartbeat_ms = 1000;     ///< on connections that we dialled; a silent peer is dropped after 5; 0 = none
};

/// Where progress() delivers. The calls may use the plane (send, answer, dial, hang_up), but not progress().
/// `payload` is good until the call returns.
class ControlSink {
 public:
  virtual ~ControlSink() = default;
  virtual void on_call(const CallerId& caller, std::span<const std::byte> payload) = 0;
  virtual void on_answer(DialId dial, std::span<const std::byte> payload) = 0;
  /// The connection is up (again). What is sent from within this call goes first on it.
  virtual void on_connected(DialId dial) = 0;
  /// The connection is down: messages that were on their way may be lost, and none of them reaches a later
  /// one. The plane tries to connect again, after 10 ms at first and every 500 ms in the end, until
  /// hang_up().
  virtual void on_disconnected(DialId dial) = 0;
  /// A caller's connection has ended, or a stranger's; with `watch_callers`. ZeroMQ does not say whose:
  /// answer() fails for that caller, now or a few milliseconds later.
  virtual void on_hang_up() {}
};

class ControlPlane {
 public:
  /// Binds. `conflict`: the port is taken; names the address and, when it can be found in /proc, the owner's
  /// pid and command. `invalid_argument`: the host does not resolve to an address of this machine, or is a
  /// wildcard (0.0.0.0,
  /// ::), which peers could not be told.
  static Result<std::unique_ptr<ControlPlane>> create(const ControlOptions& options);
  /// Drops what was not sent yet (linger 0) and closes every socket. No call to a sink follows.
  virtual ~ControlPlane() = default;

  /// What to tell others: the address that was chosen and the port that was really bound. Empty and 0 when
  /// not listening. IPv6 without brackets.
  virtual const std::string& host() const = 0;
  virtual int port() const = 0;

  /// Starts connecting. `host` is an address in digits (resolve_host() first: a resolver may take seconds).
  /// `exhausted`: no more sockets or file descriptors, with the limit to raise.
  virtual Result<DialId> dial(const std::string& host, int port) = 0;
  /// Closes the connection and drops what was not sent yet. No call with this dial follows. Unknown ids are
  /// ignored.
  virtual void hang_up(DialId dial) = 0;

  /// While the connection is not up, messages are kept for the next one and go out, in order, after
  /// on_connected(). `exhausted`: the queue is full; `too_large`: above max_message_size; `not_found`: hung
  /// up.
  virtual Status send(DialId dial, std::span<const std::byte> payload) = 0;
  /// How often since dial() the peer has dropped a connection instead of taking it: it has another secret
  /// key, or is no engine.
  virtual std::uint64_t failed_handshakes(DialId dial) const = 0;
  /// `exhausted` and `too_large` as above; `unavailable`: this caller is gone.
  virtual Status answer(const CallerId& caller, std::span<const std::byte> payload) = 0;

  /// One descriptor for everything (an epoll set); readable when progress() may have something to do,
  /// level-triggered. It needs no progress() after a send: a wake-up that a send swallowed is kept.
  virtual int wait_fd() const = 0;
  /// Delivers what is there, up to a bound for each connection (wait_fd() stays readable when more is left),
  /// and connects again what is due. Never blocks. Returns the number of calls to the sink.
  virtual std::size_t progress(ControlSink& sink) = 0;

  /// Messages dropped because of their frames, since the start.
  virtual std::uint64_t malformed_count() const = 0;
};

}  // namespace stagewire::control
