#include "partner.hpp"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include <chrono>
#include <cstring>
#include <iterator>
#include <memory>
#include <thread>

#include "chunk_receiver.hpp"
#include "die.hpp"
#include "process_cost.hpp"
#include "stagewire/connector.hpp"
#include "yardsticks.hpp"

namespace stagewire::bench {
namespace {

constexpr Milliseconds kPatience{60'000};
constexpr timeval kLongestSilence{.tv_sec = 120, .tv_usec = 0};

void write_all(int fd, const void* data, std::size_t size) {
  if (send(fd, data, size, MSG_NOSIGNAL) != static_cast<ssize_t>(size)) die("the other process is gone");
}

bool read_all(int fd, void* data, std::size_t size) {
  return recv(fd, data, size, MSG_WAITALL) == static_cast<ssize_t>(size);
}

double stamp_of(const std::byte* bytes) {
  double stamp = 0;
  std::memcpy(&stamp, bytes, sizeof stamp);
  return stamp;
}

/// The partner's state: one connector at a time, or one ZeroMQ socket.
class PartnerSide {
 public:
  explicit PartnerSide(int socket) : socket_(socket) {}
  ~PartnerSide() {
    if (zmq_socket_ != nullptr) zmq_close(zmq_socket_);
    if (zmq_context_ != nullptr) zmq_ctx_term(zmq_context_);
  }

  int run() {
    Request request;
    while (read_all(socket_, &request, sizeof request) && request.kind != Request::quit) serve(request);
    return 0;
  }

 private:
  void answer(const std::vector<double>& numbers) const {
    const std::uint64_t count = numbers.size();
    write_all(socket_, &count, sizeof count);
    if (count > 0) write_all(socket_, numbers.data(), count * sizeof(double));
  }

  void serve(const Request& request) {
    switch (request.kind) {
      case Request::open:
        return open(request);
      case Request::receive:
        return receive(request);
      case Request::stream:
        return stream(request);
      case Request::idle:
        return answer({process_cpu_us()});
      case Request::memory:
        return answer({resident_bytes()});
      case Request::zmq_open:
        return zmq_open(request);
      case Request::zmq_receive:
        return zmq_receive(request);
      case Request::chunks_open:
        return chunks_.open(request);
      case Request::chunks_load:
        return chunks_.load(request);
      case Request::chunks_receive:
        return chunks_.receive(request);
      case Request::chunks_end:
        return chunks_.end();
      case Request::quit:
        return;
    }
  }

  void open(const Request& request) {
    connector_.reset();
    ConnectorConfig config;
    config.stage_id = 1;
    config.role = Role::receiver;
    config.zmq_port = 0;
    config.memory_pool_size = request.pool_size;
    config.route = request.route;
    config.wait = static_cast<WaitStrategy>(request.wait);
    config.sender_host = "127.0.0.1";
    config.sender_zmq_port = request.port;
    connector_ = checked(Connector::create(config));
    answer({static_cast<double>(connector_->connection_info().zmq_port)});
  }

  Delivery get(std::uint32_t i) {
    return checked(connector_->get("0", "1", std::to_string(i), {.timeout = kPatience, .metadata = {}}));
  }

  // Put-to-ready times: the sender's clock is in the first bytes of each payload. The next key is watched
  // before the sender is told that it may go on, as a consumer of a stream does.
  void receive(const Request& request) {
    std::vector<double> times;
    times.reserve(request.count);
    const std::byte go_on{1};
    for (std::uint32_t i = 0; i < request.count; ++i) {
      check(connector_->watch("0", "1", std::to_string(i), nullptr));
      checked(connector_->put("1", "0", "go" + std::to_string(i), std::span(&go_on, 1), {}));
      const Delivery delivery = get(i);
      const double now = now_us();
      times.push_back(now - stamp_of(delivery.bytes().data()));
    }
    answer(times);
  }

  // From the first to the last of `count` payloads, of which the next `window` are always watched.
  void stream(const Request& request) {
    for (std::uint32_t i = 0; i < request.window; ++i)
      check(connector_->watch("0", "1", std::to_string(i), nullptr));
    double start = 0;
    for (std::uint32_t i = 0; i < request.count; ++i) {
      get(i).release();
      if (i == 0) start = now_us();
      check(connector_->watch("0", "1", std::to_string(i + request.window), nullptr));
    }
    const double elapsed = now_us() - start;
    for (std::uint32_t i = 0; i < request.window; ++i)
      connector_->abandon_get("0", "1", std::to_string(request.count + i));
    answer({elapsed});
  }

  void zmq_open(const Request& request) {
    if (zmq_context_ == nullptr) zmq_context_ = zmq_ctx_new();
    if (zmq_socket_ != nullptr) zmq_close(zmq_socket_);
    zmq_socket_ = zmq_socket(zmq_context_, ZMQ_PAIR);
    if (zmq_connect(zmq_socket_, request.endpoint) != 0)
      die(std::string("zmq_connect: ") + zmq_strerror(zmq_errno()));
    answer({});
  }

  void zmq_receive(const Request& request) {
    std::vector<double> times;
    for (std::uint32_t i = 0; i < request.count; ++i) {
      zmq_msg_t message;
      zmq_msg_init(&message);
      if (zmq_msg_recv(&message, zmq_socket_, 0) < 0) die("zmq_msg_recv");
      const double now = now_us();
      times.push_back(now - stamp_of(static_cast<const std::byte*>(zmq_msg_data(&message))));
      zmq_msg_close(&message);
      zmq_send(zmq_socket_, "", 0, 0);
    }
    answer(times);
  }

  int socket_;
  std::unique_ptr<Connector> connector_;
  ChunkPartner chunks_{[this](const std::vector<double>& numbers) { answer(numbers); }};
  void* zmq_context_ = nullptr;
  void* zmq_socket_ = nullptr;
};

/// Until told to stop. The connectors would wait on for what a partner that is gone has not given back.
void watch(int partner_end, int stop) {
  pollfd fds[] = {{partner_end, POLLIN, 0}, {stop, POLLIN, 0}};
  while (poll(fds, std::size(fds), -1) < 0) {
  }
  if (fds[1].revents == 0) die("the other process is gone");
  close(partner_end);
}

}  // namespace

Partner::Partner() {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) die("socketpair failed");
  socket_ = sockets[0];
  constexpr int kInherited = 3;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, sockets[1], kInherited);
  std::string program = "/proc/self/exe", command = "bench", partner = "--partner",
              fd = std::to_string(kInherited);
  char* arguments[] = {program.data(), command.data(), partner.data(), fd.data(), nullptr};
  const AllCores for_the_partner;
  const int failed = posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(sockets[1]);
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &kLongestSilence, sizeof kLongestSilence);
  if (failed != 0) die(std::string("the second process does not start: ") + std::strerror(failed));
  stop_watching_ = eventfd(0, EFD_CLOEXEC);
  const int partner_end = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0U));
  if (stop_watching_ < 0 || partner_end < 0) die("the second process cannot be watched");
  watcher_ = std::thread([partner_end, stop = stop_watching_] { watch(partner_end, stop); });
}

Partner::~Partner() {
  eventfd_write(stop_watching_, 1);
  watcher_.join();
  close(stop_watching_);
  const Request quit;
  static_cast<void>(send(socket_, &quit, sizeof quit, MSG_NOSIGNAL));
  close(socket_);
  waitpid(pid_, nullptr, 0);
}

void Partner::ask(const Request& request) const {
  write_all(socket_, &request, sizeof request);
}

std::vector<double> Partner::answer() const {
  std::uint64_t count = 0;
  bool whole = read_all(socket_, &count, sizeof count);
  std::vector<double> numbers(whole ? count : 0);
  whole = whole && (count == 0 || read_all(socket_, numbers.data(), count * sizeof(double)));
  if (!whole) die("the other process is gone, or has not answered for two minutes");
  return numbers;
}

double idle_share(const Partner& partner, double seconds) {
  Request request;
  request.kind = Request::idle;
  partner.ask(request);
  const double their_start = partner.answer().at(0);
  const double our_start = process_cpu_us();
  const double start = now_us();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  const double our_us = process_cpu_us() - our_start;
  const double elapsed = now_us() - start;
  partner.ask(request);
  const double their_us = partner.answer().at(0) - their_start;
  return (our_us + their_us) / elapsed;
}

double resident_bytes(const Partner& partner) {
  Request request;
  request.kind = Request::memory;
  partner.ask(request);
  return partner.answer().at(0);
}

int partner_main(int socket) {
  // Whoever started it may be killed while this one computes; while it reads, it sees the socket close.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  take_core(1);
  return PartnerSide(socket).run();
}

}  // namespace stagewire::bench
