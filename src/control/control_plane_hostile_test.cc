// Peers that are not what they should be (R17): the original's, strangers, wrong, silent and stopped ones.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <zmq.hpp>

#include "base/unique_fd.hpp"
#include "control/control_plane.hpp"
#include "control/plane_fixture.hpp"
#include "support/send_signal.hpp"

namespace stagewire::control {
namespace {

using testing::ElementsAre;
using testing::Pair;

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

base::UniqueFd raw_connection(int port) {
  base::UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = loopback(port);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return fd;
}

void raw_send(const base::UniqueFd& fd, const std::string& bytes) {
  // The other side may close in the middle: that is its answer.
  for (std::size_t sent = 0; sent < bytes.size();) {
    const ssize_t count = send(fd.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (count <= 0) return;
    sent += static_cast<std::size_t>(count);
  }
}

/// A TCP listener that is no ZeroMQ socket.
struct RawServer {
  base::UniqueFd listener{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  int port = 0;

  RawServer() {
    const int yes = 1;
    setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener.get(), 8), 0);
    EXPECT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    port = ntohs(address.sin_port);
  }
  base::UniqueFd accept_one() const { return base::UniqueFd(accept(listener.get(), nullptr, nullptr)); }
};

/// ZMTP 3.0's greeting with mechanism NULL.
std::string greeting() {
  std::string bytes("\xff\0\0\0\0\0\0\0\0\x7f\x03\0NULL", 16);
  bytes.resize(64, '\0');
  return bytes;
}

/// The command that ends the handshake.
std::string ready(const std::string& socket_type) {
  std::string body = "\x05READY\x0bSocket-Type";
  body += std::string("\0\0\0", 3) + static_cast<char>(socket_type.size()) + socket_type;
  return std::string("\x04", 1) + static_cast<char>(body.size()) + body;
}

/// A socket of the plain library, as the original's peers have.
struct PlainSocket {
  zmq::context_t context;
  zmq::socket_t socket;

  PlainSocket(zmq::socket_type type, const Station& server) : socket(context, type) {
    socket.set(zmq::sockopt::linger, 0);
    socket.connect("tcp://" + server.plane->host() + ":" + std::to_string(server.plane->port()));
  }
  void send(const std::vector<std::string>& frames) {
    for (std::size_t i = 0; i < frames.size(); ++i) {
      socket.send(zmq::buffer(frames[i]),
                  i + 1 < frames.size() ? zmq::send_flags::sndmore : zmq::send_flags::none);
    }
  }
};

/// The server still serves, whatever happened to it.
void expect_works(Station& server) {
  Station client = Station::open();
  const std::string request = "still there";
  std::optional<CallerId> caller;
  server.seen.call = [&](const CallerId& from, std::span<const std::byte> payload) {
    if (as_text(payload) == request) caller = from;
  };
  ASSERT_TRUE(client.plane->send(client.dial(server), as_bytes(request)).ok());
  ASSERT_TRUE(drive({&server, &client}, [&] { return caller.has_value(); }));
  ASSERT_TRUE(server.plane->answer(*caller, as_bytes("yes")).ok());
  ASSERT_TRUE(drive({&server, &client}, [&] { return client.seen.answers.size() == 1; }));
  server.seen.call = nullptr;
}

unsigned seed() {
  const char* wanted = std::getenv("STAGEWIRE_SEED");
  const unsigned value =
      wanted != nullptr ? static_cast<unsigned>(std::strtoul(wanted, nullptr, 10)) : 20240611U;
  testing::Test::RecordProperty("seed", static_cast<int>(value));
  std::printf("STAGEWIRE_SEED=%u\n", value);
  return value;
}

TEST(HostilePeers, the_original_request_socket_is_answered) {
  Station server = Station::open();
  server.seen.call = [&](const CallerId& caller, std::span<const std::byte>) {
    ASSERT_TRUE(server.plane->answer(caller, as_bytes("info_not_found")).ok());
  };
  PlainSocket original(zmq::socket_type::req, server);
  for (int round = 0; round < 3; ++round) {
    original.send({"query_info"});
    ASSERT_TRUE(
        drive({&server}, [&] { return server.seen.calls.size() == static_cast<std::size_t>(round) + 1; }));
    zmq::message_t reply;
    original.socket.set(zmq::sockopt::rcvtimeo, 60'000);
    ASSERT_TRUE(original.socket.recv(reply));
    EXPECT_EQ(reply.to_string(), "info_not_found");
  }
  EXPECT_EQ(server.seen.calls.front().second, "query_info");
}

TEST(HostilePeers, R17_wrong_frames_are_counted_and_nothing_else_happens) {
  Station server = Station::open();
  PlainSocket stranger(zmq::socket_type::dealer, server);
  stranger.send({"bare"});
  stranger.send({"", "enveloped"});
  stranger.send({"not empty", "payload"});
  stranger.send({"", "a", "b"});
  stranger.send(std::vector<std::string>(1000, ""));
  stranger.send({""});
  ASSERT_TRUE(drive({&server}, [&] { return server.seen.calls.size() == 3; }));
  EXPECT_EQ(server.seen.calls[0].second, "bare");
  EXPECT_EQ(server.seen.calls[1].second, "enveloped");
  EXPECT_EQ(server.seen.calls[2].second, "");
  EXPECT_EQ(server.plane->malformed_count(), 3u);
  expect_works(server);
}

TEST(HostilePeers, R17_an_answer_of_wrong_frames_is_counted) {
  zmq::context_t context;
  zmq::socket_t server(context, zmq::socket_type::router);
  server.set(zmq::sockopt::linger, 0);
  server.bind("tcp://127.0.0.1:0");
  const std::string endpoint = server.get(zmq::sockopt::last_endpoint);
  Station client = Station::open();
  const Result<DialId> dial =
      client.plane->dial("127.0.0.1", std::stoi(endpoint.substr(endpoint.rfind(':') + 1)));
  ASSERT_TRUE(dial.ok());
  ASSERT_TRUE(client.plane->send(*dial, as_bytes("hello")).ok());
  ASSERT_TRUE(drive({&client}, [&] { return client.seen.ups.size() == 1; }));
  zmq::message_t caller;
  ASSERT_TRUE(server.recv(caller));
  const std::vector<std::vector<std::string>> answers = {
      {"bare"}, {"a", "b"}, {"", "x", "y"}, {"", "enveloped"}};
  for (const std::vector<std::string>& frames : answers) {
    server.send(zmq::buffer(caller.to_string()), zmq::send_flags::sndmore);
    for (std::size_t i = 0; i < frames.size(); ++i) {
      server.send(zmq::buffer(frames[i]),
                  i + 1 < frames.size() ? zmq::send_flags::sndmore : zmq::send_flags::none);
    }
  }
  ASSERT_TRUE(drive({&client}, [&] { return client.seen.answers.size() == 2; }));
  EXPECT_THAT(client.seen.answers, ElementsAre(Pair(*dial, "bare"), Pair(*dial, "enveloped")));
  EXPECT_EQ(client.plane->malformed_count(), 2u);
}

TEST(HostilePeers, R17_bytes_of_any_kind_leave_the_server_working) {
  std::mt19937 random(seed());
  Station server = Station::open();
  std::vector<base::UniqueFd> open;
  for (int round = 0; round < 60; ++round) {
    std::string bytes;
    if (round % 3 >= 1) bytes += greeting();
    if (round % 3 == 2) bytes += ready("DEALER");
    const std::size_t noise = random() % 5000;
    for (std::size_t i = 0; i < noise; ++i) bytes += static_cast<char>(random());
    bytes.resize(bytes.size() - random() % (bytes.size() / 4 + 1));
    open.push_back(raw_connection(server.plane->port()));
    raw_send(open.back(), bytes);
    server.plane->progress(server.seen);
    if (round % 2 == 0) open.pop_back();  // the others stay, silent
  }
  expect_works(server);
}

TEST(HostilePeers, R16_a_message_above_the_limit_costs_its_sender_the_connection_and_nobody_else) {
  Station server = Station::open({.max_message_size = 1000});
  PlainSocket large(zmq::socket_type::dealer, server);
  large.send({"", std::string(1000, 'x')});
  ASSERT_TRUE(drive({&server}, [&] { return server.seen.calls.size() == 1; }));
  const CallerId caller = server.seen.calls[0].first;
  large.send({"", std::string(1001, 'x')});
  ASSERT_TRUE(drive({&server}, [&] {
    const Status answered = server.plane->answer(caller, as_bytes("there?"));
    return !answered.ok() && answered.error().code() == ErrorCode::unavailable;
  }));
  EXPECT_EQ(server.seen.calls.size(), 1u);
  EXPECT_EQ(server.plane->answer(caller, as_bytes(std::string(1001, 'y'))).error().code(),
            ErrorCode::too_large);
  expect_works(server);
}

TEST(HostilePeers, R09_a_stranger_on_the_port_is_no_reason_to_give_up) {
  RawServer stranger;
  Station client = Station::open();
  const Result<DialId> dial = client.plane->dial("127.0.0.1", stranger.port);
  ASSERT_TRUE(dial.ok());
  ASSERT_TRUE(client.plane->send(*dial, as_bytes("for the real one")).ok());

  std::atomic<bool> over = false;
  std::thread answering([&] {
    raw_send(stranger.accept_one(), "HTTP/1.1 400 Bad Request\r\n\r\n");
    for (const std::string& bytes : {greeting() + std::string(500, '\x07'), greeting() + ready("PUB")}) {
      const base::UniqueFd connection = stranger.accept_one();
      raw_send(connection, bytes);
      std::array<char, 256> ignored{};
      while (recv(connection.get(), ignored.data(), ignored.size(), 0) > 0) continue;  // until it hangs up
    }
    const base::UniqueFd last = stranger.accept_one();
    stranger.listener.reset();
    over = true;
  });
  const bool refused = drive({&client}, [&] { return over.load(); });
  answering.join();
  ASSERT_TRUE(refused);

  Station real = Station::open({.host = "127.0.0.1", .port = stranger.port});
  ASSERT_TRUE(drive({&client, &real}, [&] { return real.seen.calls.size() == 1; }));
  EXPECT_EQ(real.seen.calls[0].second, "for the real one");
  EXPECT_THAT(client.seen.ups, ElementsAre(*dial));
  EXPECT_TRUE(client.seen.downs.empty());
}

TEST(HostilePeers, R05_a_peer_that_falls_silent_is_dropped_by_heartbeat) {
  RawServer silent;
  Station client = Station::open({.heartbeat_ms = 20});
  const Result<DialId> dial = client.plane->dial("127.0.0.1", silent.port);
  ASSERT_TRUE(dial.ok());
  const base::UniqueFd connection = silent.accept_one();
  raw_send(connection, greeting() + ready("ROUTER"));
  ASSERT_TRUE(drive({&client}, [&] { return client.seen.ups.size() == 1; }));
  ASSERT_TRUE(drive({&client}, [&] { return client.seen.downs.size() == 1; }));
}

/// Forks a process that answers every call with its size, and tells its port. Called before any thread exists
/// here.
struct EchoProcess {
  pid_t pid = -1;
  int port = 0;

  EchoProcess() {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe(ends.data()), 0);
    const base::UniqueFd reader(ends[0]), writer(ends[1]);
    pid = fork();
    if (pid == 0) run(writer.get());
    EXPECT_EQ(read(reader.get(), &port, sizeof port), static_cast<ssize_t>(sizeof port));
  }
  ~EchoProcess() {
    test::send_signal(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  [[noreturn]] static void run(int writer) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    Station server = Station::open();
    server.seen.call = [&](const CallerId& caller, std::span<const std::byte> payload) {
      if (!server.plane->answer(caller, as_bytes(std::to_string(payload.size()))).ok()) _exit(1);
    };
    const int port = server.plane->port();
    if (write(writer, &port, sizeof port) < 0) _exit(1);
    while (drive({&server}, [] { return false; })) continue;
    _exit(0);
  }
};

TEST(HostilePeers, R05_R06_a_stopped_peer_blocks_neither_send_nor_others_and_goes_on_where_it_was) {
  EchoProcess echo;
  Station client = Station::open({.send_queue = 20, .heartbeat_ms = 0});
  const Result<DialId> dial = client.plane->dial("127.0.0.1", echo.port);
  ASSERT_TRUE(dial.ok());
  ASSERT_TRUE(drive({&client}, [&] { return client.seen.ups.size() == 1; }));
  ASSERT_TRUE(test::send_signal(echo.pid, SIGSTOP));

  const std::string payload(200'000, 'x');
  std::size_t accepted = 0;
  Status sent;
  // What the kernel and the queue hold; send() would block here if it could.
  while (sent.ok()) {
    sent = client.plane->send(*dial, as_bytes(payload));
    if (sent.ok()) ++accepted;
  }
  EXPECT_EQ(sent.error().code(), ErrorCode::exhausted);
  EXPECT_GE(accepted, 20u);
  Station other = Station::open();
  expect_works(other);
  const DialId other_dial = client.dial(other);
  ASSERT_TRUE(client.plane->send(other_dial, as_bytes("quick")).ok());
  ASSERT_TRUE(drive({&client, &other},
                    [&] { return !other.seen.calls.empty() && other.seen.calls.back().second == "quick"; }));

  ASSERT_TRUE(test::send_signal(echo.pid, SIGCONT));
  ASSERT_TRUE(drive({&client}, [&] { return client.seen.answers.size() == accepted; }));
  EXPECT_THAT(client.seen.answers, testing::Each(Pair(*dial, "200000")));
  EXPECT_TRUE(client.seen.downs.empty());
}

}  // namespace
}  // namespace stagewire::control
