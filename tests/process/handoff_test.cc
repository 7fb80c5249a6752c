// Handoffs between real processes that are stopped, killed and started again.
#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "process/handoff_process.hpp"

namespace stagewire::process {
namespace {

constexpr std::size_t kBig = 8 << 20;
const std::size_t kPoolSize = PeerOptions().pool_size;

std::string payload(const std::string& key, std::size_t size, int seed, int timeout_ms = 50'000) {
  std::ostringstream text;
  text << ' ' << key << ' ' << size << ' ' << seed << ' ' << timeout_ms;
  return text.str();
}

struct Processes {
  explicit Processes(const std::string& wanted_route) : route(wanted_route) {
    sender = std::make_unique<HandoffPeer>(PeerOptions{0, route});
    EXPECT_GT(sender->port, 0) << sender->hello;
    receiver = std::make_unique<HandoffPeer>(PeerOptions{1, route, 0, sender->port});
    EXPECT_GT(receiver->port, 0) << receiver->hello;
    EXPECT_EQ(hand_over("meet", 10'000, 1), "ok " + (route == "auto" ? "lease" : route));
  }
  std::string hand_over(const std::string& key, std::size_t size, int seed) const {
    EXPECT_EQ(sender->ask("put" + payload(key, size, seed)), "ok");
    return receiver->ask("get" + payload(key, size, seed));
  }
  void expect_all_returned() const {
    EXPECT_EQ(sender->ask("drain 50000"), "ok");
    EXPECT_TRUE(eventually([&] { return sender->health()["free"] == kPoolSize; }));
    EXPECT_TRUE(eventually([&] { return receiver->health()["free"] == kPoolSize; }));
    EXPECT_EQ(receiver->health()["quarantined"], 0U);
  }

  const std::string route;
  std::unique_ptr<HandoffPeer> sender;
  std::unique_ptr<HandoffPeer> receiver;
};

class StoppedTest : public ::testing::TestWithParam<std::tuple<const char*, bool>> {};

std::string name_of(const ::testing::TestParamInfo<std::tuple<const char*, bool>>& info) {
  return std::string(std::get<0>(info.param)) + (std::get<1>(info.param) ? "_sender" : "_receiver");
}

INSTANTIATE_TEST_SUITE_P(Routes, StoppedTest,
                         ::testing::Combine(::testing::Values("lease", "read", "write"), ::testing::Bool()),
                         name_of);

// One side is stopped at some moment of the handoff; after it was let go on everything is whole.
TEST_P(StoppedTest, R01_R02_R03_a_stopped_process_goes_on_where_it_was) {
  const auto [route, stop_sender] = GetParam();
  Processes processes(route);
  HandoffPeer& victim = stop_sender ? *processes.sender : *processes.receiver;
  std::mt19937 random(5);
  for (int round = 0; round < 12; ++round) {
    const std::string key = "k" + std::to_string(round);
    processes.sender->tell("put" + payload(key, kBig, round));
    processes.receiver->tell("get" + payload(key, kBig, round));
    // Any moment will do: the two have not been waited for.
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 10'000));
    victim.stop();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    victim.go_on();
    EXPECT_EQ(processes.sender->reply(), "ok");
    EXPECT_EQ(processes.receiver->reply(), "ok " + processes.route);
  }
  processes.expect_all_returned();
}

// The writer is stopped when it is asked to write: the receiver gives up, and its block waits for the writer.
class StoppedWriter : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(processes.sender->ask("put" + payload("k", kBig, 3)), "ok");
    ASSERT_EQ(processes.receiver->ask("ready k"), "ok");
    processes.sender->stop();
    const std::string got = processes.receiver->ask("get" + payload("k", kBig, 3, 200));
    EXPECT_TRUE(got.starts_with("timeout")) << got;
    EXPECT_EQ(processes.receiver->health()["quarantined"], kBig);
  }
  Processes processes{"write"};
};

TEST_F(StoppedWriter, R01_its_block_is_kept_until_it_says_that_it_has_stopped) {
  processes.sender->go_on();
  EXPECT_TRUE(eventually([&] { return processes.receiver->health()["quarantined"] == 0; }));
  EXPECT_EQ(processes.receiver->ask("get" + payload("k", kBig, 3)), "ok write");
  processes.expect_all_returned();
}

TEST_F(StoppedWriter, R01_its_block_comes_back_when_it_is_killed) {
  processes.sender->kill();
  EXPECT_TRUE(eventually([&] { return processes.receiver->health()["quarantined"] == 0; }));
  EXPECT_EQ(processes.receiver->health()["free"], kPoolSize);
}

TEST(KilledReceiver, R02_its_lease_ends_and_another_receiver_gets_the_payload) {
  Processes processes("lease");
  ASSERT_EQ(processes.sender->ask("put" + payload("k", kBig, 4)), "ok");
  ASSERT_EQ(processes.receiver->ask("hold" + payload("k", kBig, 4)), "ok lease");
  EXPECT_TRUE(processes.sender->ask("put" + payload("k", kBig, 5)).starts_with("conflict"))
      << "it is being read";
  const int port = processes.receiver->port;
  processes.receiver->kill();
  // R09: on the same port, at once.
  processes.receiver = std::make_unique<HandoffPeer>(PeerOptions{1, "lease", port, processes.sender->port});
  ASSERT_EQ(processes.receiver->port, port) << processes.receiver->hello;
  EXPECT_EQ(processes.receiver->ask("get" + payload("k", kBig, 4)), "ok lease");
  EXPECT_EQ(processes.hand_over("next", 1000, 6), "ok lease");
  processes.expect_all_returned();
}

TEST(KilledSender, R05_R09_waiting_ends_what_is_held_stays_and_a_restart_works_at_once) {
  Processes processes("lease");
  ASSERT_EQ(processes.sender->ask("put" + payload("held", kBig, 7)), "ok");
  ASSERT_EQ(processes.receiver->ask("hold" + payload("held", kBig, 7)), "ok lease");
  processes.receiver->tell("get" + payload("never", kBig, 8));
  ASSERT_TRUE(eventually([&] { return processes.sender->health()["watched"] == 1; }));
  const std::string name = "pid" + std::to_string(processes.sender->pid());
  const int port = processes.sender->port;
  processes.sender->kill();
  const std::string ended = processes.receiver->reply();
  EXPECT_TRUE(ended.starts_with("unavailable")) << ended;
  EXPECT_NE(ended.find(name), std::string::npos) << ended;
  EXPECT_EQ(processes.receiver->ask("check"), "ok 1");

  processes.sender = std::make_unique<HandoffPeer>(PeerOptions{0, "lease", port});
  ASSERT_EQ(processes.sender->port, port) << processes.sender->hello;
  ASSERT_EQ(processes.sender->ask("put" + payload("again", kBig, 9)), "ok");
  std::string got = processes.receiver->ask("get" + payload("again", kBig, 9));
  if (got != "ok lease") got = processes.receiver->ask("get" + payload("again", kBig, 9));  // one failed try
  EXPECT_EQ(got, "ok lease");
  EXPECT_EQ(processes.receiver->ask("check"), "ok 1");
  EXPECT_EQ(processes.receiver->ask("release"), "ok");
}

// Names of ours that outlive their process: none.
TEST(Killed, R08_nothing_is_left_of_processes_that_were_killed) {
  const auto names = [](pid_t pid) {
    std::vector<std::string> found;
    std::ifstream sockets("/proc/net/unix");
    const std::string mark = std::to_string(pid);
    for (std::string line; std::getline(sockets, line);) {
      if (line.find("stagewire") != std::string::npos && line.find(mark) != std::string::npos)
        found.push_back(line);
    }
    for (const char* folder : {"/dev/shm", "/tmp"}) {
      for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        const std::string name = entry.path().filename();
        if (name.find("stagewire") != std::string::npos && name.find(mark) != std::string::npos)
          found.push_back(name);
      }
    }
    return found;
  };
  Processes processes("lease");
  ASSERT_EQ(processes.sender->ask("put" + payload("k", kBig, 4)), "ok");
  ASSERT_EQ(processes.receiver->ask("hold" + payload("k", kBig, 4)), "ok lease");
  const pid_t pids[] = {processes.sender->pid(), processes.receiver->pid()};
  const int port = processes.sender->port;
  processes.sender->kill();
  processes.receiver->kill();
  for (const pid_t pid : pids) {
    EXPECT_TRUE(eventually([&] { return names(pid).empty(); })) << names(pid).front();
  }
  const HandoffPeer next(PeerOptions{0, "lease", port});
  EXPECT_EQ(next.port, port) << next.hello;
}

TEST(Port, R12_a_port_in_use_is_a_conflict_that_names_its_owner) {
  const HandoffPeer first(PeerOptions{});
  const HandoffPeer second(PeerOptions{.port = first.port});
  EXPECT_EQ(second.port, 0);
  EXPECT_NE(second.hello.find("conflict"), std::string::npos) << second.hello;
  EXPECT_NE(second.hello.find(std::to_string(first.port)), std::string::npos) << second.hello;
  EXPECT_NE(second.hello.find(std::to_string(first.pid())), std::string::npos) << second.hello;
}

// One receiver is stopped with a lease and messages for it under way, another sends garbage to the control
// port; the third is served as ever.
TEST(Hostile, R06_a_stopped_and_a_hostile_peer_do_not_hold_up_the_others) {
  Processes processes("auto");
  HandoffPeer stopped(PeerOptions{2, "lease", 0, processes.sender->port});
  ASSERT_EQ(processes.sender->ask("put" + payload("s", kBig, 4)), "ok");
  ASSERT_EQ(stopped.ask("hold" + payload("s", kBig, 4)), "ok lease");
  stopped.tell("get" + payload("later", 100, 5));
  ASSERT_TRUE(eventually([&] { return processes.sender->health()["watched"] == 1; }));
  stopped.stop();
  const int garbage = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(processes.sender->port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::connect(garbage, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    std::string noise(1000, ' ');
    for (char& c : noise) c = static_cast<char>(random());
    static_cast<void>(::send(garbage, noise.data(), noise.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
    const std::string got = processes.hand_over("k" + std::to_string(i), 20'000, i);
    ASSERT_TRUE(got.starts_with("ok")) << got;
  }
  ::close(garbage);
  stopped.go_on();
  ASSERT_EQ(processes.sender->ask("put" + payload("later", 100, 5)), "ok");
  EXPECT_TRUE(stopped.reply().starts_with("ok"));
  EXPECT_EQ(stopped.ask("check"), "ok 1");
}

// The interval is what is measured. A pair that polls, or wakes each other, never has such a second.
TEST(Idle, R21_R22_an_idle_pair_sleeps_and_the_first_handoff_after_it_works) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer has a thread of its own, which wakes up now and then";
#endif
  constexpr std::uint64_t kFew = 10;
  Processes processes("auto");
  EXPECT_TRUE(eventually([&] {
    const std::uint64_t before = processes.sender->sleeps() + processes.receiver->sleeps();
    std::this_thread::sleep_for(std::chrono::seconds(1));
    return processes.sender->sleeps() + processes.receiver->sleeps() - before <= kFew;
  }));
  const std::string got = processes.hand_over("first", 100'000, 2);
  EXPECT_TRUE(got.starts_with("ok")) << got;
}

TEST(Counters, R25_both_sides_count_the_same) {
  Processes processes("auto");
  std::uint64_t bytes = 10'000;
  std::uint64_t count = 1;
  for (const std::size_t size : {1UL, 4096UL, 100'000UL, 1'000'000UL}) {
    for (int i = 0; i < 5; ++i) {
      const std::string got = processes.hand_over(std::to_string(size) + "_" + std::to_string(i), size, i);
      ASSERT_TRUE(got.starts_with("ok")) << got;
      bytes += size;
      ++count;
    }
  }
  auto sent = processes.sender->health();
  auto got = processes.receiver->health();
  EXPECT_EQ(sent["puts"], count);
  EXPECT_EQ(got["gets"], count);
  EXPECT_EQ(sent["bytes_put"], bytes);
  EXPECT_EQ(got["bytes_got"], bytes);
  EXPECT_EQ(got["eager"] + got["lease"] + got["read"] + got["write"], count);
  EXPECT_EQ(sent["errors"] + got["errors"], 0U);
  processes.expect_all_returned();
}

}  // namespace
}  // namespace stagewire::process
