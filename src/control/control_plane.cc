#include "control/control_plane.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/secret_key.hpp"
#include "base/text.hpp"
#include "control/control_errors.hpp"
#include "control/event_set.hpp"
#include "control/host_address.hpp"
#include "control/peer_complaints.hpp"
#include "control/zmq_socket.hpp"

namespace stagewire::control {
namespace {

using base::Duration;
using base::TimePoint;
using std::chrono::milliseconds;

constexpr int kSocketLimit = 16'384;  // three for each dial: DEALER and both ends of its monitor
constexpr Duration kFirstBackOff = milliseconds(10);
constexpr Duration kLongestBackOff = milliseconds(500);
constexpr Duration kConnectTimeout = std::chrono::seconds(10);
constexpr int kMessagesAtOnce = 64;  // from one socket in one progress(), so that nobody starves the others
constexpr int kHeartbeatsMissed = 5;
constexpr std::size_t kKeySize = 40;  // Z85 of 32 bytes

constexpr EventSet::Tag kRouterTag = 0;
constexpr EventSet::Tag kCallersTag = 1;
constexpr DialId kFirstDial = 2;  // dials are their own tags

constexpr int kUp = ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
constexpr int kDropped = ZMQ_EVENT_DISCONNECTED | kHandshakeFailed;  // there was a connection
constexpr int kDown = ZMQ_EVENT_CLOSED | kDropped;

/// One try to reach a peer, and the connection that came of it: messages of different tries never mix, since
/// each has sockets of its own. libzmq's own reconnecting would carry queued messages over to a restarted
/// peer, and gives up for good after a protocol error.
struct Connection {
  Connection(zmq::context_t& context, std::uint64_t number)
      : dealer(context, zmq::socket_type::dealer), monitor(context, dealer, kUp | kDown, number) {}

  zmq::socket_t dealer;
  Monitor monitor;     // goes before what it watches
  int dealer_fd = -1;  // libzmq's, closed with the socket
};

struct Dial {
  DialId id = 0;
  std::string endpoint;
  std::unique_ptr<Connection> connection;
  bool up = false;
  bool announcing = false;  // within on_connected(): messages overtake the outbox
  std::deque<std::vector<std::byte>> outbox;
  std::uint64_t failed_handshakes = 0;
  Duration back_off = kFirstBackOff;
  TimePoint act_at = TimePoint::max();  // connect again, or give up this try
};

class ZmqControlPlane final : public ControlPlane {
 public:
  explicit ZmqControlPlane(const ControlOptions& options) : options_(options) {}

  Status open();

  const std::string& host() const override { return host_; }
  int port() const override { return port_; }
  Result<DialId> dial(const std::string& host, int port) override;
  void hang_up(DialId id) override;
  Status send(DialId id, std::span<const std::byte> payload) override;
  Status answer(const CallerId& caller, std::span<const std::byte> payload) override;
  std::uint64_t failed_handshakes(DialId id) const override;
  int wait_fd() const override { return events_.fd(); }
  std::size_t progress(ControlSink& sink) override;
  std::uint64_t malformed_count() const override { return complaints_.malformed_count(); }

 private:
  // Shared, since a call to the sink may hang up the dial it is about.
  using DialPointer = std::shared_ptr<Dial>;

  Status open_keys();
  Status bind(const std::string& address);
  void set_common_options(zmq::socket_t& socket) const;
  void schedule(Dial& dial, TimePoint when);

  Status connect(Dial& dial);
  void disconnect(Dial& dial);
  void retry_later(Dial& dial);
  std::size_t run_timers(ControlSink& sink);

  void watch_callers();
  std::size_t serve_callers(ControlSink& sink);
  std::size_t tell_hang_ups(ControlSink& sink);
  std::size_t serve(Dial& dial, ControlSink& sink);
  std::size_t came_up(Dial& dial, ControlSink& sink);
  std::size_t went_down(Dial& dial, ControlSink& sink);
  std::size_t deliver_answers(Dial& dial, ControlSink& sink, int most);
  void flush(Dial& dial);
  Status keep(Dial& dial, std::span<const std::byte> payload);

  const ControlOptions options_;
  std::string host_;
  int port_ = 0;
  std::string secret_key_;     // shared by all engines, in Z85; empty = no encryption
  std::string public_key_;     // that belongs to it
  zmq::context_t context_{1};  // one I/O thread; outlives the sockets below
  zmq::socket_t router_;
  std::optional<Monitor> callers_;  // of router_
  std::unordered_map<DialId, DialPointer> dials_;
  DialId next_dial_ = kFirstDial;
  std::uint64_t tries_ = 0;

  EventSet events_;  // a tag is due when its wake-up was swallowed, or it has more than one progress() takes
  PeerComplaints complaints_;
};

// --- opening ---

Status ZmqControlPlane::open() {
  if (Status sizes = check_sizes(options_); !sizes) return sizes;
  context_.set(zmq::ctxopt::max_sockets, kSocketLimit);
  if (Status opened = events_.open(); !opened) return opened;
  if (Status opened = open_keys(); !opened) return opened;
  if (!options_.listen) return {};
  Result<std::string> address = choose_listen_address(options_.host, options_.same_host_only);
  if (!address) return address.error();
  return bind(*address);
}

// Everybody has the same pair of keys. Its public half is told to nobody and never crosses the network, so
// that it is itself the secret that lets a caller in: a caller without it cannot make the handshake's first
// message, and no authentication handler (a socket and a thread more) is needed behind it.
Status ZmqControlPlane::open_keys() {
  if (options_.secret_key.empty()) return {};
  if (zmq_has("curve") == 0) {
    return base::error(ErrorCode::unsupported,
                       "a secret key needs a libzmq with CURVE (libsodium), this one has none");
  }
  Result<std::string> secret = base::z85_secret_key(options_.secret_key);
  if (!secret) return secret.error();
  std::array<char, kKeySize + 1> key{};
  if (zmq_curve_public(key.data(), secret->c_str()) != 0) {
    return base::error(ErrorCode::invalid_argument, "libzmq does not take the secret key");
  }
  secret_key_ = *std::move(secret);
  public_key_ = key.data();
  return {};
}

Status ZmqControlPlane::bind(const std::string& address) {
  Result<std::string> endpoint = tcp_endpoint(address, options_.port);
  if (!endpoint) return endpoint.error();
  router_ = zmq::socket_t(context_, zmq::socket_type::router);
  set_common_options(router_);
  // An answer to a caller that is gone is an error, not dropped in silence. No handover of identities: a
  // caller that connects again without a name of its own is a new caller, and nobody takes over the answers
  // of another.
  router_.set(zmq::sockopt::router_mandatory, true);
  router_.set(zmq::sockopt::ipv6, address.find(':') != std::string::npos);
  if (!public_key_.empty()) {
    router_.set(zmq::sockopt::curve_server, true);
    router_.set(zmq::sockopt::curve_secretkey, secret_key_);
  }
  if (options_.watch_callers) watch_callers();
  if (zmq_bind(router_.handle(), endpoint->c_str()) != 0) {
    const int failure = errno;
    return bind_error(address, options_.port, failure, zmq_strerror(failure));
  }
  const std::string bound = router_.get(zmq::sockopt::last_endpoint);
  host_ = address;
  port_ = std::stoi(bound.substr(bound.rfind(':') + 1));
  events_.watch(router_.get(zmq::sockopt::fd), kRouterTag);
  events_.make_due(kRouterTag);
  return {};
}

void ZmqControlPlane::watch_callers() {
  callers_.emplace(context_, router_, kDropped, tries_++);
  events_.watch(callers_->fd(), kCallersTag);
  events_.make_due(kCallersTag);
}

void ZmqControlPlane::set_common_options(zmq::socket_t& socket) const {
  const auto most = static_cast<int>(std::min<std::size_t>(options_.send_queue, INT32_MAX));
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::sndhwm, most);
  socket.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(options_.max_message_size));
  // A peer whose host vanished is noticed after about 25 s, whichever side called.
  socket.set(zmq::sockopt::tcp_keepalive, 1);
  socket.set(zmq::sockopt::tcp_keepalive_idle, 10);
  socket.set(zmq::sockopt::tcp_keepalive_intvl, 5);
  socket.set(zmq::sockopt::tcp_keepalive_cnt, 3);
}

// --- connections that we dial ---

Result<DialId> ZmqControlPlane::dial(const std::string& host, int port) {
  Result<std::string> endpoint = tcp_endpoint(host, port);
  if (!endpoint) return endpoint.error();
  if (port == 0) return base::error(ErrorCode::invalid_argument, "port 0 of ", host, " cannot be called");
  auto dial = std::make_shared<Dial>();
  dial->id = next_dial_++;
  dial->endpoint = *std::move(endpoint);
  if (Status started = connect(*dial); !started) return started.error();
  dials_.emplace(dial->id, dial);
  return dial->id;
}

void ZmqControlPlane::hang_up(DialId id) {
  const auto found = dials_.find(id);
  if (found == dials_.end()) return;
  disconnect(*found->second);
  dials_.erase(found);
}

std::uint64_t ZmqControlPlane::failed_handshakes(DialId id) const {
  const auto found = dials_.find(id);
  return found == dials_.end() ? 0 : found->second->failed_handshakes;
}

Status ZmqControlPlane::connect(Dial& dial) try {
  auto connection = std::make_unique<Connection>(context_, tries_++);
  zmq::socket_t& dealer = connection->dealer;
  set_common_options(dealer);
  dealer.set(zmq::sockopt::ipv6, dial.endpoint.find('[') != std::string::npos);
  dealer.set(zmq::sockopt::reconnect_ivl, -1);
  if (options_.heartbeat_ms > 0) {
    dealer.set(zmq::sockopt::heartbeat_ivl, options_.heartbeat_ms);
    dealer.set(zmq::sockopt::heartbeat_timeout, options_.heartbeat_ms * kHeartbeatsMissed);
  }
  if (!public_key_.empty()) {
    dealer.set(zmq::sockopt::curve_serverkey, public_key_);
    dealer.set(zmq::sockopt::curve_publickey, public_key_);
    dealer.set(zmq::sockopt::curve_secretkey, secret_key_);
  }
  dealer.connect(dial.endpoint);
  connection->dealer_fd = dealer.get(zmq::sockopt::fd);
  events_.watch(connection->dealer_fd, dial.id);
  events_.watch(connection->monitor.fd(), dial.id);
  dial.connection = std::move(connection);
  schedule(dial, base::steady_clock().now() + kConnectTimeout);
  events_.make_due(dial.id);
  return {};
} catch (const zmq::error_t& failure) {
  if (failure.num() == EMFILE || failure.num() == ENFILE) {
    return out_of_descriptors(dial.endpoint, dials_.size(), kSocketLimit / 3);
  }
  return base::error(ErrorCode::failed, "cannot call ", dial.endpoint, ": ", failure.what());
}

void ZmqControlPlane::disconnect(Dial& dial) {
  if (!dial.connection) return;
  // libzmq closes the descriptors later, on its own thread: they must leave the wait set now.
  events_.unwatch(dial.connection->dealer_fd);
  events_.unwatch(dial.connection->monitor.fd());
  dial.connection.reset();
  dial.up = false;
}

void ZmqControlPlane::retry_later(Dial& dial) {
  disconnect(dial);
  schedule(dial, base::steady_clock().now() + dial.back_off);
  dial.back_off = std::min(dial.back_off * 2, kLongestBackOff);
}

void ZmqControlPlane::schedule(Dial& dial, TimePoint when) {
  dial.act_at = when;
  events_.wake_at(when);
}

std::size_t ZmqControlPlane::run_timers(ControlSink& sink) {
  if (!events_.timer_rang()) return 0;
  const TimePoint now = base::steady_clock().now();
  std::vector<DialPointer> dials;
  for (const auto& [id, dial] : dials_) dials.push_back(dial);
  std::size_t calls = 0;
  for (const DialPointer& dial : dials) {
    if (dial->act_at > now) {
      schedule(*dial, dial->act_at);
    } else if (dial->connection) {
      calls += went_down(*dial, sink);  // this try took too long
    } else if (Status started = connect(*dial); !started) {
      complaints_.no_connection(started.error());
      retry_later(*dial);
    }
  }
  return calls;
}

// --- sending ---

Status ZmqControlPlane::send(DialId id, std::span<const std::byte> payload) {
  const auto found = dials_.find(id);
  if (found == dials_.end()) return base::error(ErrorCode::not_found, "no peer is called under number ", id);
  Dial& dial = *found->second;
  if (payload.size() > options_.max_message_size) {
    return message_too_large(dial.endpoint, payload.size(), options_.max_message_size);
  }
  if (!dial.up || (!dial.announcing && !dial.outbox.empty())) return keep(dial, payload);
  // The owner has not heard yet of what the monitor has to say: if it is the end of this connection, then
  // whatever is sent now would go nowhere.
  if (dial.connection->monitor.has_event()) {
    events_.make_due(id);
    return keep(dial, payload);
  }
  const int failure = send_enveloped(dial.connection->dealer, payload);
  if (has_input(dial.connection->dealer)) events_.make_due(id);
  if (failure == 0) return {};
  return send_error(dial.endpoint, failure, zmq_strerror(failure), options_.send_queue);
}

Status ZmqControlPlane::keep(Dial& dial, std::span<const std::byte> payload) {
  if (dial.outbox.size() >= options_.send_queue) return outbox_full(dial.endpoint, dial.outbox.size());
  dial.outbox.emplace_back(payload.begin(), payload.end());
  return {};
}

void ZmqControlPlane::flush(Dial& dial) {
  while (!dial.outbox.empty() && send_enveloped(dial.connection->dealer, dial.outbox.front()) == 0) {
    dial.outbox.pop_front();
  }
  if (has_input(dial.connection->dealer)) events_.make_due(dial.id);
}

Status ZmqControlPlane::answer(const CallerId& caller, std::span<const std::byte> payload) {
  if (payload.size() > options_.max_message_size) {
    return answer_too_large(payload.size(), options_.max_message_size);
  }
  if (!router_)
    return base::error(ErrorCode::unavailable, "answer: this engine does not listen, nobody called it");
  int failure = send_frame(router_, caller.data(), caller.size(), ZMQ_SNDMORE);
  if (failure == 0) failure = send_enveloped(router_, payload);
  if (has_input(router_)) events_.make_due(kRouterTag);
  if (failure == 0) return {};
  return answer_error(failure, zmq_strerror(failure), options_.send_queue);
}

// --- receiving ---

std::size_t ZmqControlPlane::progress(ControlSink& sink) {
  std::size_t calls = 0;
  for (const DialId tag : events_.take_ready()) {
    if (tag == kRouterTag) {
      calls += serve_callers(sink);
    } else if (tag == kCallersTag) {
      calls += tell_hang_ups(sink);
    } else if (tag == EventSet::kTimer) {
      calls += run_timers(sink);
    } else if (const auto found = dials_.find(tag); found != dials_.end()) {
      const DialPointer dial = found->second;
      calls += serve(*dial, sink);
    }
  }
  return calls;
}

std::size_t ZmqControlPlane::serve_callers(ControlSink& sink) {
  std::size_t calls = 0;
  for (int taken = 0; taken < kMessagesAtOnce; ++taken) {
    std::array<zmq::message_t, 3> frames;
    const std::size_t count = receive_frames(router_, frames);
    if (count == 0) return calls;
    const bool enveloped = count == 3 && frames[1].size() == 0;
    if (!enveloped && count != 2) {
      complaints_.malformed("a caller", count);
      continue;
    }
    sink.on_call(frames[0].to_string(), bytes_of(frames[count - 1]));
    ++calls;
  }
  events_.make_due(kRouterTag);
  return calls;
}

std::size_t ZmqControlPlane::tell_hang_ups(ControlSink& sink) {
  bool hung_up = false;
  while (const std::optional<int> event = callers_->next()) {
    if ((*event & kHandshakeFailed) != 0) complaints_.no_handshake(base::text("a caller of port ", port_));
    hung_up = true;
  }
  if (!hung_up) return 0;
  sink.on_hang_up();
  return 1;
}

std::size_t ZmqControlPlane::serve(Dial& dial, ControlSink& sink) {
  std::size_t calls = 0;
  while (dial.connection) {
    const std::optional<int> event = dial.connection->monitor.next();
    if (!event) break;
    if (*event == kUp) {
      calls += came_up(dial, sink);
      continue;
    }
    if ((*event & kHandshakeFailed) != 0) complaints_.no_handshake(dial.endpoint);
    if (!dial.up && (*event & kDropped) != 0) ++dial.failed_handshakes;
    calls += went_down(dial, sink);
  }
  if (dial.up) calls += deliver_answers(dial, sink, kMessagesAtOnce);
  if (dial.up) flush(dial);
  return calls;
}

std::size_t ZmqControlPlane::came_up(Dial& dial, ControlSink& sink) {
  dial.up = true;
  dial.back_off = kFirstBackOff;
  dial.act_at = TimePoint::max();
  dial.announcing = true;
  // Takes in libzmq's news of the connection, without which a send would find nobody to send to.
  if (has_input(dial.connection->dealer)) events_.make_due(dial.id);
  sink.on_connected(dial.id);
  dial.announcing = false;
  return 1;
}

std::size_t ZmqControlPlane::went_down(Dial& dial, ControlSink& sink) {
  const bool was_up = dial.up;
  // What arrived before the end still counts; the end bounds it.
  std::size_t calls = was_up ? deliver_answers(dial, sink, INT32_MAX) : 0;
  if (!dial.connection) return calls;  // hung up by the sink
  if (was_up) dial.outbox.clear();
  retry_later(dial);
  if (!was_up) return calls;
  sink.on_disconnected(dial.id);
  return calls + 1;
}

std::size_t ZmqControlPlane::deliver_answers(Dial& dial, ControlSink& sink, int most) {
  std::size_t calls = 0;
  for (int taken = 0; taken < most; ++taken) {
    if (!dial.connection) return calls;  // hung up by the sink
    std::array<zmq::message_t, 3> frames;
    const std::size_t count = receive_frames(dial.connection->dealer, frames);
    if (count == 0) return calls;
    const bool enveloped = count == 2 && frames[0].size() == 0;
    if (!enveloped && count != 1) {
      complaints_.malformed(dial.endpoint, count);
      continue;
    }
    sink.on_answer(dial.id, bytes_of(frames[count - 1]));
    ++calls;
  }
  events_.make_due(dial.id);
  return calls;
}

}  // namespace

Result<std::unique_ptr<ControlPlane>> ControlPlane::create(const ControlOptions& options) try {
  auto plane = std::make_unique<ZmqControlPlane>(options);
  if (Status opened = plane->open(); !opened) return opened.error();
  return std::unique_ptr<ControlPlane>(std::move(plane));
} catch (const zmq::error_t& failure) {
  return base::error(ErrorCode::failed, "opening the control plane: ", failure.what());
}

}  // namespace stagewire::control
