// Many dials, many messages, and what is left behind afterwards.
#include <gmock/gmock.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>

#include "base/unique_fd.hpp"
#include "control/plane_fixture.hpp"
#include "support/test_seed.hpp"

namespace stagewire::control {
namespace {

using testing::HasSubstr;

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

/// Sets the soft limit of file descriptors, and the old one again at the end.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(rlim_t wanted) {
    getrlimit(RLIMIT_NOFILE, &old_);
    rlimit changed = old_;
    changed.rlim_cur = std::min(wanted, old_.rlim_max);
    possible_ = wanted <= old_.rlim_max && setrlimit(RLIMIT_NOFILE, &changed) == 0;
  }
  ~DescriptorLimit() { setrlimit(RLIMIT_NOFILE, &old_); }
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;
  bool possible() const { return possible_; }

 private:
  rlimit old_{};
  bool possible_ = false;
};

TEST(ControlPlaneLoad, R17_six_hundred_dials_at_once) {
  constexpr std::size_t kDials = 600;
  const DescriptorLimit limit(kDials * 6);
  if (!limit.possible()) GTEST_SKIP() << "the hard limit of file descriptors is below " << kDials * 6;
  Station server = Station::open();
  server.seen.call = [&](const CallerId& caller, std::span<const std::byte> payload) {
    EXPECT_TRUE(server.plane->answer(caller, payload).ok());
  };
  Station client = Station::open();
  std::vector<DialId> dials;
  for (std::size_t i = 0; i < kDials; ++i) {
    const Result<DialId> dial = client.plane->dial(server.plane->host(), server.plane->port());
    ASSERT_TRUE(dial.ok()) << dial.error().to_string();
    dials.push_back(*dial);
    ASSERT_TRUE(client.plane->send(*dial, as_bytes(std::to_string(i))).ok());
  }
  ASSERT_TRUE(drive({&server, &client}, [&] { return client.seen.answers.size() == kDials; }));
  std::sort(client.seen.answers.begin(), client.seen.answers.end());
  for (std::size_t i = 0; i < kDials; ++i) {
    EXPECT_EQ(client.seen.answers[i], std::pair(dials[i], std::to_string(i)));
  }
}

TEST(ControlPlaneLoad, R24_running_out_of_descriptors_names_the_limit_to_raise) {
#ifdef __SANITIZE_ADDRESS__
  // To look at an exception's type it opens a pipe, and takes not getting one for a broken object.
  GTEST_SKIP() << "UndefinedBehaviorSanitizer needs descriptors itself";
#endif
  Station client = Station::open();
  const DescriptorLimit limit(open_descriptors() + 30);
  Result<DialId> dial = client.plane->dial("127.0.0.1", client.plane->port());
  for (int i = 0; i < 40 && dial.ok(); ++i) dial = client.plane->dial("127.0.0.1", client.plane->port());
  ASSERT_FALSE(dial.ok());
  EXPECT_EQ(dial.error().code(), ErrorCode::exhausted) << dial.error().to_string();
  EXPECT_THAT(dial.error().message(), HasSubstr("ulimit -n"));
}

TEST(ControlPlaneLoad, R08_hanging_up_releases_every_descriptor) {
  Station server = Station::open();
  Station client = Station::open();
  const std::size_t before = open_descriptors();
  std::vector<DialId> dials;
  for (int i = 0; i < 20; ++i) dials.push_back(client.dial(server));
  ASSERT_TRUE(drive({&server, &client}, [&] { return client.seen.ups.size() == dials.size(); }));
  EXPECT_GT(open_descriptors(), before);
  for (const DialId dial : dials) client.plane->hang_up(dial);
  client.plane->hang_up(dials.front());  // no longer there: nothing happens
  // libzmq closes on threads of its own.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (open_descriptors() != before && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_TRUE(client.seen.downs.empty());
}

// libzmq tells the end of a handshake, or of a connection, on the thread that serves all of them.
TEST(ControlPlaneLoad, R06_hanging_up_at_any_moment_stops_nobody_else) {
  Station server = Station::open();
  Station client = Station::open();
  std::mt19937_64 random(test::test_seed());
  for (int round = 0; round < 300; ++round) {
    const DialId dial = client.dial(server);
    const auto moment = std::chrono::steady_clock::now() + std::chrono::microseconds(random() % 1000);
    while (std::chrono::steady_clock::now() < moment) client.plane->progress(client.seen);
    client.plane->hang_up(dial);
  }
  const DialId last = client.dial(server);
  ASSERT_TRUE(client.plane->send(last, as_bytes("still there?")).ok());
  EXPECT_TRUE(drive({&server, &client}, [&] { return server.seen.calls.size() == 1; }));
}

TEST(ControlPlaneLoad, a_sink_may_hang_up_the_dial_it_is_called_for) {
  Station server = Station::open();
  server.seen.call = [&](const CallerId& caller, std::span<const std::byte> payload) {
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(server.plane->answer(caller, payload).ok());
  };
  Station client = Station::open();
  client.seen.connected = [&](DialId dial) { client.plane->hang_up(dial); };
  client.dial(server);
  ASSERT_TRUE(drive({&server, &client}, [&] { return client.seen.ups.size() == 1; }));

  client.seen.connected = nullptr;
  client.seen.answer = [&](DialId dial, std::span<const std::byte>) { client.plane->hang_up(dial); };
  ASSERT_TRUE(client.plane->send(client.dial(server), as_bytes("thrice")).ok());
  ASSERT_TRUE(drive({&server, &client}, [&] { return client.seen.answers.size() == 1; }));

  client.seen.disconnected = [&](DialId dial) { client.plane->hang_up(dial); };
  client.dial(server);
  ASSERT_TRUE(drive({&server, &client}, [&] { return client.seen.ups.size() == 3; }));
  server.plane.reset();
  ASSERT_TRUE(drive({&client}, [&] { return client.seen.downs.size() == 1; }));
  EXPECT_EQ(client.seen.answers.size(), 1u);
}

TEST(ControlPlaneLoad, R05_the_queue_for_a_peer_that_is_not_there_is_bounded) {
  Station gone = Station::open();
  const int port = gone.plane->port();
  gone.plane.reset();
  Station client = Station::open({.send_queue = 10});
  const Result<DialId> dial = client.plane->dial("127.0.0.1", port);
  ASSERT_TRUE(dial.ok());
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(client.plane->send(*dial, as_bytes(std::to_string(i))).ok());
  EXPECT_EQ(client.plane->send(*dial, as_bytes("one too many")).error().code(), ErrorCode::exhausted);
  Station back = Station::open({.host = "127.0.0.1", .port = port});
  ASSERT_TRUE(drive({&client, &back}, [&] { return back.seen.calls.size() == 10; }));
  for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(back.seen.calls[i].second, std::to_string(i));
}

TEST(ControlPlaneLoad, R06_one_progress_takes_a_bounded_number_and_keeps_the_rest_readable) {
  constexpr std::size_t kMessages = 1000;
  Station server = Station::open();
  Station client = Station::open();
  const DialId dial = client.dial(server);
  for (std::size_t i = 0; i < kMessages; ++i) ASSERT_TRUE(client.plane->send(dial, as_bytes("flood")).ok());
  std::size_t most = 0;
  std::size_t last = 0;
  ASSERT_TRUE(drive({&server, &client}, [&] {
    most = std::max(most, server.seen.calls.size() - last);
    last = server.seen.calls.size();
    return last == kMessages;
  }));
  EXPECT_LE(most, 64u);
}

/// Serves on a thread of its own, blocked on wait_fd() whenever nothing is reported.
class ServingThread {
 public:
  explicit ServingThread(Station& station) : thread_([this, &station] { serve(station); }) {}
  ~ServingThread() {
    eventfd_write(stop_.get(), 1);
    thread_.join();
  }
  ServingThread(const ServingThread&) = delete;
  ServingThread& operator=(const ServingThread&) = delete;

 private:
  void serve(Station& station) const {
    std::array<pollfd, 2> waits = {pollfd{station.plane->wait_fd(), POLLIN, 0},
                                   pollfd{stop_.get(), POLLIN, 0}};
    while (waits[1].revents == 0) {
      if (poll(waits.data(), waits.size(), -1) > 0 && waits[0].revents != 0) {
        station.plane->progress(station.seen);
      }
    }
  }
  base::UniqueFd stop_{eventfd(0, EFD_CLOEXEC)};
  std::thread thread_;
};

TEST(ControlPlaneLoad, R22_ten_thousand_round_trips_lose_no_wake_up) {
  constexpr std::size_t kRounds = 10'000;
  Station server = Station::open();
  Station client = Station::open();
  server.seen.call = [&](const CallerId& caller, std::span<const std::byte> payload) {
    EXPECT_TRUE(server.plane->answer(caller, payload).ok());
  };
  const DialId dial = client.dial(server);
  client.seen.answer = [&](DialId, std::span<const std::byte>) {
    const std::size_t done = client.seen.answers.size();
    if (done < kRounds) {
      EXPECT_TRUE(client.plane->send(dial, as_bytes(std::to_string(done))).ok());
    }
  };
  ASSERT_TRUE(client.plane->send(dial, as_bytes("0")).ok());
  const ServingThread serving(server);
  ASSERT_TRUE(drive({&client}, [&] { return client.seen.answers.size() == kRounds; }));
  EXPECT_EQ(client.seen.answers.back().second, std::to_string(kRounds - 1));
}

TEST(ControlPlaneLoad, R22_sends_from_outside_progress_lose_no_wake_up) {
  constexpr std::size_t kBatches = 500;
  Station server = Station::open();
  Station client = Station::open();
  server.seen.call = [&](const CallerId& caller, std::span<const std::byte> payload) {
    EXPECT_TRUE(server.plane->answer(caller, payload).ok());
  };
  const DialId dial = client.dial(server);
  const ServingThread serving(server);
  std::size_t expected = 0;
  for (std::size_t batch = 0; batch < kBatches; ++batch) {
    // Answers to the first sends arrive while the later ones are made, and no progress() follows them.
    for (std::size_t i = 0; i < 1 + batch % 17; ++i, ++expected) {
      ASSERT_TRUE(client.plane->send(dial, as_bytes("x")).ok());
    }
    ASSERT_TRUE(drive({&client}, [&] { return client.seen.answers.size() == expected; }))
        << "batch " << batch;
  }
}

}  // namespace
}  // namespace stagewire::control
