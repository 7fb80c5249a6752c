#include "control/control_plane.hpp"

#include <gmock/gmock.h>

#include <array>
#include <zmq.hpp>

#include "control/plane_fixture.hpp"
#include "stagewire/log.hpp"

namespace stagewire::control {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

TEST(ControlPlane, two_planes_exchange_messages) {
  Station server = Station::open();
  Station client = Station::open({.listen = false});
  EXPECT_EQ(client.plane->host(), "");
  EXPECT_EQ(client.plane->port(), 0);
  server.seen.call = [&](const CallerId& caller, std::span<const std::byte> payload) {
    EXPECT_TRUE(server.plane->answer(caller, as_bytes("answer to " + as_text(payload))).ok());
  };
  const DialId dial = client.dial(server);
  ASSERT_TRUE(client.plane->send(dial, as_bytes("one")).ok());
  ASSERT_TRUE(client.plane->send(dial, {}).ok());
  ASSERT_TRUE(drive({&server, &client}, [&] { return client.seen.answers.size() == 2; }));
  EXPECT_THAT(client.seen.answers, ElementsAre(Pair(dial, "answer to one"), Pair(dial, "answer to ")));
  EXPECT_THAT(client.seen.ups, ElementsAre(dial));
  EXPECT_EQ(server.plane->malformed_count(), 0u);
}

TEST(ControlPlane, what_is_sent_on_connection_goes_before_what_waited_for_it) {
  Station server = Station::open();
  Station client = Station::open();
  client.seen.connected = [&](DialId dial) { ASSERT_TRUE(client.plane->send(dial, as_bytes("hello")).ok()); };
  const DialId dial = client.dial(server);
  ASSERT_TRUE(client.plane->send(dial, as_bytes("first")).ok());
  ASSERT_TRUE(client.plane->send(dial, as_bytes("second")).ok());
  ASSERT_TRUE(drive({&server, &client}, [&] { return server.seen.calls.size() == 3; }));
  EXPECT_EQ(server.seen.calls[0].second, "hello");
  EXPECT_EQ(server.seen.calls[1].second, "first");
  EXPECT_EQ(server.seen.calls[2].second, "second");
}

TEST(ControlPlane, R09_a_restarted_peer_is_connected_again_and_gets_nothing_meant_for_the_old_one) {
  Station server = Station::open();
  Station client = Station::open();
  const int port = server.plane->port();
  const DialId dial = client.dial(server);
  ASSERT_TRUE(client.plane->send(dial, as_bytes("to the first")).ok());
  ASSERT_TRUE(drive({&server, &client}, [&] { return server.seen.calls.size() == 1; }));
  const CallerId first_caller = server.seen.calls[0].first;

  server.plane.reset();
  ASSERT_TRUE(client.plane->send(dial, as_bytes("lost")).ok());
  ASSERT_TRUE(drive({&client}, [&] { return client.seen.downs.size() == 1; }));
  ASSERT_TRUE(client.plane->send(dial, as_bytes("to the second")).ok());

  Station second = Station::open({.host = "127.0.0.1", .port = port});
  ASSERT_TRUE(drive({&second, &client}, [&] { return second.seen.calls.size() == 1; }));
  EXPECT_EQ(second.seen.calls[0].second, "to the second");
  EXPECT_THAT(client.seen.ups, ElementsAre(dial, dial));
  EXPECT_EQ(second.plane->answer(first_caller + "?", as_bytes("x")).error().code(), ErrorCode::unavailable);
}

TEST(ControlPlane, a_caller_that_is_gone_is_an_error_and_one_that_returns_is_another) {
  Station server = Station::open();
  Station client = Station::open();
  const DialId first = client.dial(server);
  ASSERT_TRUE(client.plane->send(first, as_bytes("first")).ok());
  ASSERT_TRUE(drive({&server, &client}, [&] { return server.seen.calls.size() == 1; }));
  client.plane->hang_up(first);
  EXPECT_EQ(client.plane->send(first, as_bytes("x")).error().code(), ErrorCode::not_found);

  const DialId second = client.dial(server);
  ASSERT_TRUE(client.plane->send(second, as_bytes("second")).ok());
  ASSERT_TRUE(drive({&server, &client}, [&] { return server.seen.calls.size() == 2; }));
  EXPECT_NE(server.seen.calls[0].first, server.seen.calls[1].first);
  ASSERT_TRUE(server.plane->answer(server.seen.calls[1].first, as_bytes("yes")).ok());
  ASSERT_TRUE(drive({&server, &client}, [&] { return client.seen.answers.size() == 1; }));
  // The end of the first connection comes over another socket than the second's message: it may take a
  // moment.
  ASSERT_TRUE(drive({&server, &client}, [&] {
    const Status answered = server.plane->answer(server.seen.calls[0].first, as_bytes("no"));
    return !answered.ok() && answered.error().code() == ErrorCode::unavailable;
  }));
}

TEST(ControlPlane, R10_ipv6_with_and_without_brackets) {
  for (const char* host : {"::1", "[::1]"}) {
    Station server = Station::open({.host = host});
    ASSERT_TRUE(server.plane) << "this machine has no IPv6 loopback";
    EXPECT_EQ(server.plane->host(), "::1");
    Station client = Station::open();
    const DialId dial = client.dial(server);
    ASSERT_TRUE(client.plane->send(dial, as_bytes("six")).ok());
    EXPECT_TRUE(drive({&server, &client}, [&] { return server.seen.calls.size() == 1; }));
  }
}

TEST(ControlPlane, R12_port_0_gives_each_its_own_port) {
  Station one = Station::open();
  Station two = Station::open();
  EXPECT_GT(one.plane->port(), 0);
  EXPECT_GT(two.plane->port(), 0);
  EXPECT_NE(one.plane->port(), two.plane->port());
}

TEST(ControlPlane, R12_a_port_in_use_is_refused_at_once_with_address_and_owner) {
  Station owner = Station::open();
  const int port = owner.plane->port();
  const auto refused = ControlPlane::create({.host = "127.0.0.1", .port = port});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::conflict);
  EXPECT_THAT(refused.error().message(), HasSubstr("127.0.0.1 port " + std::to_string(port)));
  EXPECT_THAT(refused.error().message(), HasSubstr("pid " + std::to_string(getpid()) + " ("));
  EXPECT_THAT(refused.error().message(), HasSubstr("control_test"));
}

TEST(ControlPlane, R10_R16_hosts_that_cannot_be_bound_or_told_to_peers_are_refused) {
  for (const char* host : {"203.0.113.7", "0.0.0.0", "::", "", "no_such_host.invalid."}) {
    const auto refused = ControlPlane::create({.host = host});
    ASSERT_FALSE(refused.ok()) << host;
    EXPECT_EQ(refused.error().code(), ErrorCode::invalid_argument) << refused.error().to_string();
    EXPECT_THAT(refused.error().message(), HasSubstr(host));
  }
  EXPECT_EQ(ControlPlane::create({.host = "127.0.0.1", .port = 65536}).error().code(),
            ErrorCode::invalid_argument);
  EXPECT_EQ(ControlPlane::create({.host = "127.0.0.1", .port = -1}).error().code(),
            ErrorCode::invalid_argument);
}

/// A fresh Z85 secret key.
std::string new_secret_key() {
  std::array<char, 41> open_half{}, secret_half{};
  EXPECT_EQ(zmq_curve_keypair(open_half.data(), secret_half.data()), 0);
  return secret_half.data();
}

TEST(ControlPlane, R16_with_a_secret_key_only_those_who_have_it_are_heard) {
  const std::string key = new_secret_key();
  Station server = Station::open({.secret_key = key});
  Station friendly = Station::open({.secret_key = key});
  Station wrong = Station::open({.secret_key = new_secret_key()});
  Station open = Station::open();
  const std::vector<Station*> strangers = {&wrong, &open};
  for (Station* stranger : strangers) {
    ASSERT_TRUE(stranger->plane->send(stranger->dial(server), as_bytes("let me in")).ok());
  }
  int refusals = 0;
  set_log_sink([&](LogLevel, std::string_view, std::string_view text) {
    if (text.find("does not complete ZeroMQ's handshake") != std::string_view::npos) ++refusals;
  });
  const bool refused = drive({&server, &wrong, &open}, [&] { return refusals >= 2; });
  set_log_sink({});
  ASSERT_TRUE(refused) << refusals;
  ASSERT_TRUE(friendly.plane->send(friendly.dial(server), as_bytes("it is me")).ok());
  ASSERT_TRUE(drive({&server, &friendly, &wrong, &open}, [&] { return !server.seen.calls.empty(); }));
  EXPECT_EQ(server.seen.calls.size(), 1u);
  EXPECT_EQ(server.seen.calls[0].second, "it is me");
  ASSERT_TRUE(server.plane->answer(server.seen.calls[0].first, as_bytes("welcome")).ok());
  ASSERT_TRUE(drive({&server, &friendly}, [&] { return friendly.seen.answers.size() == 1; }));
  EXPECT_TRUE(wrong.seen.ups.empty());
  EXPECT_TRUE(open.seen.ups.empty());
}

TEST(ControlPlane, R16_who_is_kept_out_for_the_secret_can_tell) {
  Station server = Station::open({.secret_key = new_secret_key()});
  for (const std::string& key : {new_secret_key(), std::string()}) {
    Station stranger = Station::open({.listen = false, .secret_key = key});
    const DialId dial = stranger.dial(server);
    ASSERT_TRUE(drive({&server, &stranger}, [&] { return stranger.plane->failed_handshakes(dial) >= 2; }));
    EXPECT_TRUE(stranger.seen.ups.empty());
  }
  // Nobody there is another thing.
  Station gone = Station::open();
  const int port = gone.plane->port();
  gone.plane.reset();
  Station caller = Station::open({.listen = false});
  const auto dial = caller.plane->dial("127.0.0.1", port);
  ASSERT_TRUE(dial.ok());
  // Three tries, told by the descriptor's wake-ups.
  for (int woken = 0; woken < 3; ++woken) {
    pollfd waiting{caller.plane->wait_fd(), POLLIN, 0};
    ASSERT_EQ(poll(&waiting, 1, 60'000), 1);
    caller.plane->progress(caller.seen);
  }
  EXPECT_EQ(caller.plane->failed_handshakes(*dial), 0U);
  EXPECT_EQ(caller.plane->failed_handshakes(*dial + 1), 0U) << "a dial that there is not";
}

TEST(ControlPlane, the_end_of_a_caller_is_told_and_then_answers_to_it_fail) {
  Station server = Station::open({.watch_callers = true});
  Station caller = Station::open({.listen = false});
  const DialId dial = caller.dial(server);
  ASSERT_TRUE(caller.plane->send(dial, as_bytes("hello")).ok());
  ASSERT_TRUE(drive({&server, &caller}, [&] { return server.seen.calls.size() == 1; }));
  const CallerId who = server.seen.calls.front().first;
  EXPECT_TRUE(server.plane->answer(who, as_bytes("welcome")).ok());
  EXPECT_EQ(server.seen.hang_ups, 0);
  caller.plane->hang_up(dial);
  ASSERT_TRUE(drive({&server, &caller}, [&] { return server.seen.hang_ups > 0; }));
  Status last;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (last.ok() && std::chrono::steady_clock::now() < deadline)
    last = server.plane->answer(who, as_bytes("still there?"));
  ASSERT_FALSE(last.ok());
  EXPECT_EQ(last.error().code(), ErrorCode::unavailable);
}

TEST(ControlPlane, R16_a_secret_key_that_is_none_is_refused_and_not_shown) {
  for (const std::string& key : {std::string("hunter2"), std::string(40, ' '), std::string(41, 'a')}) {
    const auto refused = ControlPlane::create({.host = "127.0.0.1", .secret_key = key});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code(), ErrorCode::invalid_argument);
    EXPECT_THAT(refused.error().message(), testing::Not(HasSubstr(key)));
  }
}

TEST(ControlPlane, dials_to_what_is_no_address_are_refused) {
  Station client = Station::open();
  EXPECT_EQ(client.plane->dial("localhost", 5000).error().code(), ErrorCode::invalid_argument);
  EXPECT_EQ(client.plane->dial("127.0.0.1", 0).error().code(), ErrorCode::invalid_argument);
  EXPECT_EQ(client.plane->dial("127.0.0.1", 70000).error().code(), ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace stagewire::control
