#include "control/control_plane.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "control/host_address.hpp"

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

// What an epoll event belongs to; dials have their own ids.
constexpr DialId kRouterTag = 0;
constexpr DialId kAttentionTag = UINT64_MAX;
constexpr DialId kTimerTag = UINT64_MAX - 1;

constexpr int kHandshakeFailed = ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                                 ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
constexpr int kUp = ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
constexpr int kDown = ZMQ_EVENT_CLOSED | ZMQ_EVENT_DISCONNECTED | kHandshakeFailed;

/// The wildcard addresses stand for every address of the machine, so they name none.
bool is_wildcard(std::string_view address) {
  return address == "0.0.0.0" || address == "::";
}

std::span<const std::byte> bytes_of(const zmq::message_t& message) {
  return {message.data<std::byte>(), message.size()};
}

/// Takes one frame that is there. Receiving until this says false also empties the socket's mailbox, after
/// which its ZMQ_FD signals again.
bool receive(zmq::socket_t& socket, zmq::message_t& frame) {
  while (zmq_msg_recv(frame.handle(), socket.handle(), ZMQ_DONTWAIT) < 0) {
    if (errno != EINTR) return false;
  }
  return true;
}

/// Takes one whole message (frames of one message arrive together) and returns how many frames it had, 0 when
/// there is none. Frames beyond the third are thrown away.
std::size_t receive_frames(zmq::socket_t& socket, std::array<zmq::message_t, 3>& frames) {
  std::size_t count = 0;
  for (bool more = true; more; ++count) {
    zmq::message_t surplus;
    zmq::message_t& frame = count < frames.size() ? frames[count] : surplus;
    if (!receive(socket, frame)) return count;
    more = frame.more();
  }
  return count;
}

/// Returns errno, 0 when it was sent.
int send_frame(zmq::socket_t& socket, const void* data, std::size_t size, int flags) {
  while (zmq_send(socket.handle(), data, size, ZMQ_DONTWAIT | flags) < 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

/// Sends [empty][payload]. Once the first frame of a message is taken, the others are.
int send_enveloped(zmq::socket_t& socket, std::span<const std::byte> payload) {
  if (const int failure = send_frame(socket, nullptr, 0, ZMQ_SNDMORE); failure != 0) return failure;
  return send_frame(socket, payload.data(), payload.size(), 0);
}

/// Reading ZMQ_EVENTS swallows the wake-up of ZMQ_FD: whoever sees true must see to it that somebody
/// receives.
bool has_input(zmq::socket_t& socket) {
  int events = 0;
  std::size_t size = sizeof events;
  while (zmq_getsockopt(socket.handle(), ZMQ_EVENTS, &events, &size) != 0) {
    if (errno != EINTR) return false;
  }
  return (events & ZMQ_POLLIN) != 0;
}

/// One try to reach a peer, and the connection that came of it: messages of different tries never mix, since
/// each has sockets of its own. libzmq's own reconnecting would carry queued messages over to a restarted
/// peer, and gives up for good after a protocol error.
struct Connection {
  zmq::socket_t dealer;
  zmq::socket_t monitor;
  int dealer_fd = -1;  // libzmq's, closed with the sockets
  int monitor_fd = -1;
};

struct Dial {
  DialId id = 0;
  std::string endpoint;
  std::optional<Connection> connection;
  bool up = false;
  bool announcing = false;  // within on_connected(): messages overtake the outbox
  std::deque<std::vector<std::byte>> outbox;
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
  int wait_fd() const override { return epoll_.get(); }
  std::size_t progress(ControlSink& sink) override;
  std::uint64_t malformed_count() const override { return malformed_; }

 private:
  using DialPointer =
      std::shared_ptr<Dial>;  // shared, since a call to the sink may hang up the dial it is about

  Result<std::string> choose_host() const;
  Status open_wait_set();
  Status open_keys();
  Status bind(const std::string& address);
  Error bind_error(const std::string& address, int error_number) const;
  void set_common_options(zmq::socket_t& socket) const;
  void watch(int fd, DialId tag) const;
  void unwatch(int fd) const;
  void make_due(DialId tag);
  void schedule(Dial& dial, TimePoint when);

  Status connect(Dial& dial);
  void disconnect(Dial& dial);
  void retry_later(Dial& dial);
  std::size_t run_timers(ControlSink& sink);

  std::vector<DialId> take_ready();
  std::size_t serve_callers(ControlSink& sink);
  std::size_t serve(Dial& dial, ControlSink& sink);
  std::size_t came_up(Dial& dial, ControlSink& sink);
  std::size_t went_down(Dial& dial, ControlSink& sink);
  std::size_t deliver_answers(Dial& dial, ControlSink& sink, int most);
  void flush(Dial& dial);
  Status keep(Dial& dial, std::span<const std::byte> payload);
  void count_malformed(std::string_view from, std::size_t frames);

  const ControlOptions options_;
  std::string host_;
  int port_ = 0;
  std::string public_key_;     // that belongs to the shared secret key; empty = no encryption
  zmq::context_t context_{1};  // one I/O thread; outlives the sockets below
  zmq::socket_t router_;
  std::unordered_map<DialId, DialPointer> dials_;
  DialId next_dial_ = 1;
  std::uint64_t tries_ = 0;

  base::UniqueFd epoll_;
  base::UniqueFd attention_;  // an eventfd, readable while due_ is not empty
  base::UniqueFd timer_;
  TimePoint timer_at_ = TimePoint::max();
  std::vector<DialId> due_;  // have input whose wake-up was swallowed, or more than one progress() takes
  std::uint64_t malformed_ = 0;
  base::LogLimiter malformed_log_;
  base::LogLimiter handshake_log_;
  base::LogLimiter connect_log_;
};

// --- opening ---

Status ZmqControlPlane::open() {
  if (options_.heartbeat_ms < 0 || options_.max_message_size == 0 || options_.send_queue == 0) {
    return base::error(ErrorCode::invalid_argument, "control plane: heartbeat_ms ", options_.heartbeat_ms,
                       ", max_message_size ", options_.max_message_size, ", send_queue ", options_.send_queue,
                       ": sizes must be above zero and times not below");
  }
  context_.set(zmq::ctxopt::max_sockets, kSocketLimit);
  if (Status opened = open_wait_set(); !opened) return opened;
  if (Status opened = open_keys(); !opened) return opened;
  if (!options_.listen) return {};
  Result<std::string> address = choose_host();
  if (!address) return address.error();
  return bind(*address);
}

Result<std::string> ZmqControlPlane::choose_host() const {
  if (options_.host == "auto") {
    Result<AddressChoice> choice =
        choose_address(interface_addresses(), default_route_interface(), options_.same_host_only);
    if (!choice) return choice.error();
    base::log(LogLevel::info, "control", "host: auto is ", choice->address, ": ", choice->reason);
    return choice->address;
  }
  Result<std::string> address = resolve_host(options_.host);
  if (!address) return address;
  if (is_wildcard(*address)) {
    return base::error(ErrorCode::invalid_argument, "host ", *address,
                       " stands for every address and cannot be told to peers; write one address, or `auto`");
  }
  return address;
}

Status ZmqControlPlane::open_wait_set() {
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  attention_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  timer_.reset(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!epoll_ || !attention_ || !timer_)
    return base::system_error("opening the control plane's wait set", errno);
  watch(attention_.get(), kAttentionTag);
  watch(timer_.get(), kTimerTag);
  return {};
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
  std::array<char, kKeySize + 1> key{};
  if (options_.secret_key.size() != kKeySize ||
      zmq_curve_public(key.data(), options_.secret_key.c_str()) != 0) {
    return base::error(ErrorCode::invalid_argument, "the secret key is not ", kKeySize,
                       " characters of Z85 (it has ", options_.secret_key.size(), " bytes)");
  }
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
    router_.set(zmq::sockopt::curve_secretkey, options_.secret_key);
  }
  if (zmq_bind(router_.handle(), endpoint->c_str()) != 0) return bind_error(address, errno);
  const std::string bound = router_.get(zmq::sockopt::last_endpoint);
  host_ = address;
  port_ = std::stoi(bound.substr(bound.rfind(':') + 1));
  watch(router_.get(zmq::sockopt::fd), kRouterTag);
  make_due(kRouterTag);
  return {};
}

Error ZmqControlPlane::bind_error(const std::string& address, int error_number) const {
  const std::string where = base::text("cannot listen on ", address, " port ", options_.port, ": ");
  if (error_number == EADDRINUSE) {
    const std::string owner = port_owner(address, options_.port);
    return base::error(ErrorCode::conflict, where, "the port is in use by ",
                       owner.empty() ? "a process that cannot be found" : owner,
                       "; choose another port, or 0 for any free one");
  }
  if (error_number == EADDRNOTAVAIL || error_number == ENODEV) {
    return base::error(ErrorCode::invalid_argument, where,
                       "this machine has no such address; choose one of its ", "own, or `auto`");
  }
  if (error_number == EACCES) {
    return base::error(ErrorCode::permission, where,
                       "the system does not allow it; ports below 1024 are for root");
  }
  return base::error(ErrorCode::failed, where, zmq_strerror(error_number));
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

// --- the wait set ---

void ZmqControlPlane::watch(int fd, DialId tag) const {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = tag;
  STAGEWIRE_CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0,
                  "a descriptor of ours cannot be watched");
}

void ZmqControlPlane::unwatch(int fd) const {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

void ZmqControlPlane::make_due(DialId tag) {
  if (std::find(due_.begin(), due_.end(), tag) != due_.end()) return;
  if (due_.empty()) eventfd_write(attention_.get(), 1);
  due_.push_back(tag);
}

void ZmqControlPlane::schedule(Dial& dial, TimePoint when) {
  dial.act_at = when;
  if (when >= timer_at_) return;
  timer_at_ = when;
  const auto seconds = std::chrono::floor<std::chrono::seconds>(when.time_since_epoch());
  itimerspec spec{};
  spec.it_value.tv_sec = seconds.count();
  spec.it_value.tv_nsec = (when.time_since_epoch() - seconds).count();
  timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &spec, nullptr);
}

std::vector<DialId> ZmqControlPlane::take_ready() {
  std::vector<DialId> ready = std::exchange(due_, {});
  if (!ready.empty()) {
    eventfd_t ignored = 0;
    eventfd_read(attention_.get(), &ignored);
  }
  std::array<epoll_event, 64> events{};
  const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const DialId tag = events[static_cast<std::size_t>(i)].data.u64;
    if (std::find(ready.begin(), ready.end(), tag) == ready.end()) ready.push_back(tag);
  }
  return ready;
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

Status ZmqControlPlane::connect(Dial& dial) try {
  Connection connection{.dealer = zmq::socket_t(context_, zmq::socket_type::dealer),
                        .monitor = zmq::socket_t(context_, zmq::socket_type::pair)};
  zmq::socket_t& dealer = connection.dealer;
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
    dealer.set(zmq::sockopt::curve_secretkey, options_.secret_key);
  }
  const std::string events = base::text("inproc://dial-events-", tries_++);
  if (zmq_socket_monitor(dealer.handle(), events.c_str(), kUp | kDown) != 0) throw zmq::error_t();
  connection.monitor.set(zmq::sockopt::linger, 0);
  connection.monitor.connect(events);
  dealer.connect(dial.endpoint);
  connection.dealer_fd = dealer.get(zmq::sockopt::fd);
  connection.monitor_fd = connection.monitor.get(zmq::sockopt::fd);
  watch(connection.dealer_fd, dial.id);
  watch(connection.monitor_fd, dial.id);
  dial.connection = std::move(connection);
  schedule(dial, base::steady_clock().now() + kConnectTimeout);
  make_due(dial.id);
  return {};
} catch (const zmq::error_t& failure) {
  if (failure.num() != EMFILE && failure.num() != ENFILE) {
    return base::error(ErrorCode::failed, "cannot call ", dial.endpoint, ": ", failure.what());
  }
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  return base::error(ErrorCode::exhausted, "cannot call ", dial.endpoint,
                     ": out of sockets or file descriptors with ", dials_.size(),
                     " peers called already; each takes 4 descriptors of ", files.rlim_cur,
                     " (raise it with `ulimit -n`), and at most ", kSocketLimit / 3, " peers are possible");
}

void ZmqControlPlane::disconnect(Dial& dial) {
  if (!dial.connection) return;
  // libzmq closes the descriptors later, on its own thread: they must leave the wait set now.
  unwatch(dial.connection->dealer_fd);
  unwatch(dial.connection->monitor_fd);
  dial.connection.reset();
  dial.up = false;
}

void ZmqControlPlane::retry_later(Dial& dial) {
  disconnect(dial);
  schedule(dial, base::steady_clock().now() + dial.back_off);
  dial.back_off = std::min(dial.back_off * 2, kLongestBackOff);
}

std::size_t ZmqControlPlane::run_timers(ControlSink& sink) {
  std::uint64_t ignored = 0;
  if (read(timer_.get(), &ignored, sizeof ignored) < 0) return 0;
  timer_at_ = TimePoint::max();
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
      if (auto held = connect_log_.admit(now)) {
        base::log(LogLevel::warning, "control", started.error().to_string(), " (", *held,
                  " like this before)");
      }
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
    return base::error(ErrorCode::too_large, "message of ", payload.size(), " bytes to ", dial.endpoint,
                       ": at most ", options_.max_message_size, " are possible");
  }
  if (!dial.up || (!dial.announcing && !dial.outbox.empty())) return keep(dial, payload);
  // The owner has not heard yet of what the monitor has to say: if it is the end of this connection, then
  // whatever is sent now would go nowhere.
  if (has_input(dial.connection->monitor)) {
    make_due(id);
    return keep(dial, payload);
  }
  const int failure = send_enveloped(dial.connection->dealer, payload);
  if (has_input(dial.connection->dealer)) make_due(id);
  if (failure == 0) return {};
  if (failure != EAGAIN)
    return base::error(ErrorCode::failed, "send to ", dial.endpoint, ": ", zmq_strerror(failure));
  return base::error(ErrorCode::exhausted, "send to ", dial.endpoint, ": ", options_.send_queue,
                     " messages wait already, the peer does not read them");
}

Status ZmqControlPlane::keep(Dial& dial, std::span<const std::byte> payload) {
  if (dial.outbox.size() >= options_.send_queue) {
    return base::error(ErrorCode::exhausted, "send to ", dial.endpoint, ": ", dial.outbox.size(),
                       " messages wait already for the connection");
  }
  dial.outbox.emplace_back(payload.begin(), payload.end());
  return {};
}

void ZmqControlPlane::flush(Dial& dial) {
  while (!dial.outbox.empty() && send_enveloped(dial.connection->dealer, dial.outbox.front()) == 0) {
    dial.outbox.pop_front();
  }
  if (has_input(dial.connection->dealer)) make_due(dial.id);
}

Status ZmqControlPlane::answer(const CallerId& caller, std::span<const std::byte> payload) {
  if (payload.size() > options_.max_message_size) {
    return base::error(ErrorCode::too_large, "answer of ", payload.size(), " bytes: at most ",
                       options_.max_message_size, " are possible");
  }
  if (!router_)
    return base::error(ErrorCode::unavailable, "answer: this engine does not listen, nobody called it");
  int failure = send_frame(router_, caller.data(), caller.size(), ZMQ_SNDMORE);
  if (failure == 0) failure = send_enveloped(router_, payload);
  if (has_input(router_)) make_due(kRouterTag);
  if (failure == 0) return {};
  if (failure == EAGAIN) {
    return base::error(ErrorCode::exhausted, "answer: ", options_.send_queue,
                       " messages wait already, the caller does not read them");
  }
  return base::error(ErrorCode::unavailable, "answer: the caller is gone (", zmq_strerror(failure), ")");
}

// --- receiving ---

std::size_t ZmqControlPlane::progress(ControlSink& sink) {
  std::size_t calls = 0;
  for (const DialId tag : take_ready()) {
    if (tag == kRouterTag) {
      calls += serve_callers(sink);
    } else if (tag == kTimerTag) {
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
      count_malformed("a caller", count);
      continue;
    }
    sink.on_call(frames[0].to_string(), bytes_of(frames[count - 1]));
    ++calls;
  }
  make_due(kRouterTag);
  return calls;
}

std::size_t ZmqControlPlane::serve(Dial& dial, ControlSink& sink) {
  std::size_t calls = 0;
  zmq::message_t event, where;
  while (dial.connection && receive(dial.connection->monitor, event) &&
         receive(dial.connection->monitor, where)) {
    std::uint16_t kind = 0;
    STAGEWIRE_CHECK(event.size() >= sizeof kind, "libzmq's monitor events begin with 16 bits");
    std::memcpy(&kind, event.data(), sizeof kind);
    if (kind == kUp) {
      calls += came_up(dial, sink);
      continue;
    }
    if ((kind & kHandshakeFailed) != 0) {
      if (auto held = handshake_log_.admit(base::steady_clock().now())) {
        base::log(LogLevel::warning, "control", dial.endpoint, " does not complete ZeroMQ's handshake (",
                  *held, " like this before)");
      }
    }
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
  if (has_input(dial.connection->dealer)) make_due(dial.id);
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
      count_malformed(dial.endpoint, count);
      continue;
    }
    sink.on_answer(dial.id, bytes_of(frames[count - 1]));
    ++calls;
  }
  make_due(dial.id);
  return calls;
}

void ZmqControlPlane::count_malformed(std::string_view from, std::size_t frames) {
  ++malformed_;
  if (auto held = malformed_log_.admit(base::steady_clock().now())) {
    base::log(LogLevel::warning, "control", "dropped a message of ", frames, " frames from ", from, " (",
              *held, " like this before)");
  }
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
