// A sender and a receiver on two hosts, real verbs between them, and what befalls the network and the
// processes.
#include "rdma/two_hosts.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace stagewire::rdma_test {
namespace {

using process::eventually;
using process::HandoffPeer;
using process::PeerOptions;

class TwoHosts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!in_guest()) GTEST_SKIP() << "needs the two hosts of scripts/rdma-vm run --netns";
  }
  static std::string put(HandoffPeer& peer, const std::string& key, std::size_t size, int seed) {
    return peer.ask("put " + key + " " + std::to_string(size) + " " + std::to_string(seed) + " 30000");
  }
  static std::string get(HandoffPeer& peer, const std::string& key, std::size_t size, int seed,
                         int timeout_ms = 60'000) {
    return peer.ask("get " + key + " " + std::to_string(size) + " " + std::to_string(seed) + " " +
                    std::to_string(timeout_ms));
  }
};

TEST_F(TwoHosts, small_payloads_are_sent_and_large_ones_are_read) {
  HandoffPeer sender(sender_options());
  ASSERT_GT(sender.port, 0) << sender.hello;
  HandoffPeer receiver(receiver_options(sender.port));
  ASSERT_GT(receiver.port, 0) << receiver.hello;
  ASSERT_EQ(put(sender, "large", 5'000'000, 1), "ok");
  EXPECT_EQ(get(receiver, "large", 5'000'000, 1), "ok read");
  for (int i = 0; i < 20; ++i) {
    const std::string key = "small" + std::to_string(i);
    receiver.tell("get " + key + " 4096 " + std::to_string(i) + " 60000");
    ASSERT_TRUE(eventually([&] { return sender.health()["watched"] > 0; }));
    ASSERT_EQ(put(sender, key, 4096, i), "ok");
    EXPECT_EQ(receiver.reply(), "ok eager");
  }
  EXPECT_TRUE(eventually([&] { return sender.health()["published"] == 0; }));
}

TEST_F(TwoHosts, R05_a_link_that_is_cut_for_three_seconds_loses_nothing) {
  HandoffPeer sender(sender_options());
  HandoffPeer receiver(receiver_options(sender.port));
  ASSERT_EQ(put(sender, "first", 100'000, 1), "ok");
  ASSERT_EQ(get(receiver, "first", 100'000, 1), "ok read");
  for (int i = 0; i < 8; ++i) ASSERT_EQ(put(sender, "during" + std::to_string(i), 3'000'000, i), "ok");
  CutLink cut;
  receiver.tell("get during0 3000000 0 60000");
  std::this_thread::sleep_for(std::chrono::seconds(3));  // that long the network is away: what is tested
  cut.mend();
  EXPECT_EQ(receiver.reply(), "ok read");
  for (int i = 1; i < 8; ++i) EXPECT_EQ(get(receiver, "during" + std::to_string(i), 3'000'000, i), "ok read");
  EXPECT_TRUE(eventually([&] { return sender.health()["published"] == 0; }));
}

TEST_F(TwoHosts, R05_a_link_that_is_cut_in_the_middle_of_a_stream_loses_nothing) {
  HandoffPeer sender(sender_options());
  HandoffPeer receiver(receiver_options(sender.port));
  ASSERT_EQ(put(sender, "first", 4096, 1), "ok");
  ASSERT_EQ(get(receiver, "first", 4096, 1).substr(0, 2), "ok");
  for (int round = 0; round < 3; ++round) {
    CutLink cut;
    for (int i = 0; i < 10; ++i) {
      const std::string key = "chunk" + std::to_string(round) + "-" + std::to_string(i);
      ASSERT_EQ(put(sender, key, 4096 + static_cast<std::size_t>(i) * 10'000, i), "ok");
    }
    receiver.tell("get chunk" + std::to_string(round) + "-0 4096 0 60000");
    std::this_thread::sleep_for(
        std::chrono::milliseconds(700 * round));  // shorter and longer than the retries
    cut.mend();
    EXPECT_EQ(receiver.reply().substr(0, 2), "ok");
    for (int i = 1; i < 10; ++i) {
      const std::string key = "chunk" + std::to_string(round) + "-" + std::to_string(i);
      EXPECT_EQ(get(receiver, key, 4096 + static_cast<std::size_t>(i) * 10'000, i).substr(0, 2), "ok");
    }
  }
}

TEST_F(TwoHosts, R05_a_link_that_is_cut_for_good_ends_in_an_error_with_its_name) {
  auto options = sender_options();
  options.settings = {"rdma_recovery_timeout_ms=2000"};
  HandoffPeer sender(options);
  options = receiver_options(sender.port);
  options.settings = {"rdma_recovery_timeout_ms=2000"};
  HandoffPeer receiver(options);
  ASSERT_EQ(put(sender, "first", 100'000, 1), "ok");
  ASSERT_EQ(get(receiver, "first", 100'000, 1), "ok read");
  ASSERT_EQ(put(sender, "second", 3'000'000, 2), "ok");
  const CutLink cut;
  const std::string error = get(receiver, "second", 3'000'000, 2);
  EXPECT_NE(error.find("unavailable"), std::string::npos) << error;
  EXPECT_EQ(receiver.health()["quarantined"], 0U);
}

TEST_F(TwoHosts, R09_a_killed_peer_is_reached_again_on_the_same_port) {
  auto options = sender_options();
  HandoffPeer sender(options);
  const int port = sender.port;
  HandoffPeer receiver(receiver_options(port));
  ASSERT_EQ(put(sender, "first", 100'000, 1), "ok");
  ASSERT_EQ(get(receiver, "first", 100'000, 1), "ok read");
  sender.kill();
  options.port = port;
  HandoffPeer again(options);
  ASSERT_EQ(again.port, port) << again.hello;
  ASSERT_EQ(put(again, "second", 200'000, 2), "ok");
  std::string got;
  ASSERT_TRUE(eventually([&] { return (got = get(receiver, "second", 200'000, 2)) == "ok read"; })) << got;
}

TEST_F(TwoHosts, R08_a_killed_receiver_leaves_the_sender_whole) {
  HandoffPeer sender(sender_options());
  const std::uint64_t free_at_start = sender.health()["free"];
  {
    HandoffPeer receiver(receiver_options(sender.port));
    ASSERT_EQ(put(sender, "first", 5'000'000, 1), "ok");
    ASSERT_EQ(receiver.ask("hold first 5000000 1 60000"), "ok read");
    ASSERT_EQ(put(sender, "second", 5'000'000, 2), "ok");
    receiver.tell("get second 5000000 2 60000");
    receiver.kill();
  }
  HandoffPeer next(receiver_options(sender.port));
  std::string got;
  ASSERT_TRUE(eventually([&] {
    got = get(next, "second", 5'000'000, 2, 1000);
    return got == "ok read" || got.starts_with("not_found");
  })) << got;
  if (got != "ok read") {
    ASSERT_EQ(put(sender, "third", 5'000'000, 3), "ok");
    EXPECT_EQ(get(next, "third", 5'000'000, 3), "ok read");
  }
  EXPECT_TRUE(eventually([&] { return sender.health()["free"] == free_at_start; }));
  EXPECT_EQ(sender.health()["quarantined"], 0U);
}

TEST_F(TwoHosts, R01_a_receiver_that_was_stopped_while_it_read_goes_on) {
  HandoffPeer sender(sender_options());
  HandoffPeer receiver(receiver_options(sender.port));
  ASSERT_EQ(put(sender, "first", 20'000'000, 1), "ok");
  receiver.tell("get first 20000000 1 500");
  receiver.stop();
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // its deadline passes: what is tested
  receiver.go_on();
  const std::string first = receiver.reply();
  EXPECT_TRUE(first == "ok read" || first.find("timeout") != std::string::npos) << first;
  ASSERT_EQ(put(sender, "second", 20'000'000, 2), "ok");
  EXPECT_EQ(get(receiver, "second", 20'000'000, 2), "ok read");
  ASSERT_EQ(get(receiver, "first", 20'000'000, 1, 3000).find("corrupt"), std::string::npos);
}

// With two ports on each host (run --rails 2).
class TwoRails : public TwoHosts {
 protected:
  void SetUp() override {
    TwoHosts::SetUp();
    if (in_guest() && !std::filesystem::exists("/sys/class/infiniband/rxe1"))
      GTEST_SKIP() << "needs --rails 2";
  }
};

TEST_F(TwoRails, R05_transfers_move_to_the_other_rail_when_one_is_cut) {
  HandoffPeer sender(sender_options());
  HandoffPeer receiver(receiver_options(sender.port));
  ASSERT_EQ(put(sender, "first", 300'000, 1), "ok");
  ASSERT_EQ(get(receiver, "first", 300'000, 1), "ok read");
  for (int i = 0; i < 4; ++i) ASSERT_EQ(put(sender, "during" + std::to_string(i), 1'000'000, i), "ok");
  const CutLink cut(0, 2);  // and it stays cut
  for (int i = 0; i < 4; ++i) EXPECT_EQ(get(receiver, "during" + std::to_string(i), 1'000'000, i), "ok read");
  ASSERT_EQ(put(sender, "after", 1'000'000, 9), "ok");
  EXPECT_EQ(get(receiver, "after", 1'000'000, 9), "ok read");
  EXPECT_TRUE(eventually([&] { return sender.health()["published"] == 0; }));
}

TEST_F(TwoRails, R05_data_is_spread_over_both_and_goes_over_the_one_that_is_left) {
  const std::vector<std::string> settings = {"rails_per_transfer=2", "rdma_max_piece=65536"};
  PeerOptions sending = sender_options();
  sending.settings = settings;
  HandoffPeer sender(sending);
  PeerOptions receiving = receiver_options(sender.port);
  receiving.settings = settings;
  HandoffPeer receiver(receiving);
  // How many bytes go out of each of our ports for a payload of a megabyte and a half.
  const auto sent_for = [&](const std::string& key, int seed) {
    const auto sent = [](const std::string& port) {
      std::ifstream table("/proc/1/net/dev");  // the devices are there
      for (std::string line; std::getline(table, line);) {
        std::istringstream words(line);
        std::string name;
        words >> name;
        std::uint64_t count = 0;
        for (int column = 0; column < 9; ++column) words >> count;
        if (name == port) return count;
      }
      return std::uint64_t{0};
    };
    const std::pair before{sent("roce0:"), sent("roce1:")};
    EXPECT_EQ(put(sender, key, 1'500'000, seed), "ok");
    EXPECT_EQ(get(receiver, key, 1'500'000, seed), "ok read");
    return std::pair{sent("roce0:") - before.first, sent("roce1:") - before.second};
  };
  sent_for("first", 1);
  const auto both = sent_for("both", 2);
  EXPECT_GT(both.first, 200'000U);
  EXPECT_GT(both.second, 200'000U);
  CutLink cut(1, 2);
  EXPECT_GT(sent_for("one", 3).first, 1'000'000U);
  EXPECT_LT(sent_for("one_more", 4).second, 10'000U);
  cut.mend();
  int round = 5;
  EXPECT_TRUE(eventually([&] {
    ++round;
    return sent_for("again" + std::to_string(round), round).second > 200'000;
  }));
}

}  // namespace
}  // namespace stagewire::rdma_test
