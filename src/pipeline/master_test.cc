// The master against nodes that the test plays: what they may say, and what it does with the rest.
#include "pipeline/master.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "control/plane_fixture.hpp"

namespace stagewire::pipeline {
namespace {

using control::DialId;
using control::Station;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Hello hello(const std::string& name, std::vector<int> stages) {
  Hello result;
  result.release = "0.1.0";
  result.name = name;
  result.pid = 7;
  result.instance = name + "-1";
  result.boot_id = "boot";
  result.network = name;
  result.stages = std::move(stages);
  return result;
}

/// Writes down what the supervisor would be told.
class Sink final : public StageSink {
 public:
  void on_message(std::size_t position, Message message) override {
    messages.emplace_back(position, message);
  }
  void on_nonsense(std::size_t position, const Error&) override { nonsense.push_back(position); }
  void on_output(std::size_t, std::string_view) override {}
  void on_exit(std::size_t position, const StageExit& exit) override {
    exits.push_back(std::to_string(position) + " " + exit.status.text() + ": " + exit.last_words);
  }
  void on_lost(std::span<const std::size_t> positions, const Error& reason) override {
    lost.assign(positions.begin(), positions.end());
    loss = reason.to_string();
  }

  std::vector<std::pair<std::size_t, Message>> messages;
  std::vector<std::size_t> nonsense;
  std::vector<std::string> exits;
  std::vector<std::size_t> lost;
  std::string loss;
};

/// A node by hand.
struct Peer {
  Station station = Station::open({.listen = false});
  DialId dial = 0;

  explicit Peer(int port) {
    const auto made = station.plane->dial("127.0.0.1", port);
    EXPECT_TRUE(made.ok());
    dial = made.ok() ? *made : 0;
  }
  void say(const std::string& text) { EXPECT_TRUE(station.plane->send(dial, control::as_bytes(text)).ok()); }
  void say(const NodeMessage& message) { say(encode_node_message(message)); }
  /// The next answer that is none to a beat.
  NodeMessage answer() {
    for (;;) {
      EXPECT_TRUE(control::drive({&station}, [this] { return station.seen.answers.size() > taken; }));
      if (station.seen.answers.size() <= taken) return Refused{};
      auto message = decode_node_message(station.seen.answers[taken++].second);
      EXPECT_TRUE(message.ok());
      if (!std::holds_alternative<BeatAnswer>(*message)) return *message;
    }
  }
  std::size_t taken = 0;
};

class MasterTest : public ::testing::Test {
 protected:
  void open(Milliseconds heartbeat = Milliseconds(60'000)) {
    MasterOptions options;
    options.host = "127.0.0.1";
    options.own = hello("master", {0});
    options.stages = {0, 1, 2};
    options.heartbeat_timeout = heartbeat;
    auto made = Master::open(std::move(options));
    ASSERT_TRUE(made.ok()) << made.error().to_string();
    master_ = std::move(*made);
    gathered_ = std::async(std::launch::async,
                           [this] { return master_->gather(Begin{}, -1, [](const std::string&) {}); });
  }

  /// Lets a node with stages 1 and 2 in, and the run begin.
  void begin(Peer& peer) {
    peer.say(hello("b", {1, 2}));
    EXPECT_TRUE(std::holds_alternative<Welcome>(peer.answer()));
    EXPECT_TRUE(std::holds_alternative<Begin>(peer.answer()));
    EXPECT_TRUE(gathered_.get().ok());
  }

  /// Serves the master and the peer until it is so.
  void serve_until(Peer& peer, const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!done() && std::chrono::steady_clock::now() < deadline) {
      std::vector<pollfd> fds;
      master_->watch(fds);
      fds.push_back({peer.station.plane->wait_fd(), POLLIN, 0});
      ::poll(fds.data(), fds.size(), 10);
      master_->serve(std::span(fds).first(1), sink_);
      peer.station.plane->progress(peer.station.seen);
    }
    EXPECT_TRUE(done());
  }

  std::unique_ptr<Master> master_;
  std::future<Status> gathered_;
  Sink sink_;
};

TEST_F(MasterTest, R16_strangers_and_nonsense_are_refused_while_the_others_meet) {
  open();
  for (const char* text : {"", "{}", "nonsense", R"({"type": "hello"})"}) {
    Peer stranger(master_->port());
    stranger.say(std::string(text));
    const NodeMessage answer = stranger.answer();
    ASSERT_TRUE(std::holds_alternative<Refused>(answer)) << text;
    EXPECT_EQ(std::get<Refused>(answer).code, ErrorCode::corrupt);
  }
  Peer quiet(master_->port());
  quiet.say(FromStage{1, encode_message(Ready{"10.0.0.1", 1})});
  Peer other(master_->port());
  Hello newer = hello("c", {1});
  newer.release = "0.2.0";
  other.say(newer);
  EXPECT_THAT(std::get<Refused>(other.answer()).message, HasSubstr("it is stagewire 0.2.0"));
  Peer node(master_->port());
  begin(node);
  Peer late(master_->port());
  late.say(hello("d", {1}));
  std::optional<NodeMessage> answer;
  serve_until(late, [&] { return !late.station.seen.answers.empty(); });
  EXPECT_THAT(std::get<Refused>(late.answer()).message, HasSubstr("the run has begun without it"));
}

TEST_F(MasterTest, what_stages_say_and_how_they_end_comes_through_and_orders_go_back) {
  open();
  Peer node(master_->port());
  begin(node);
  EXPECT_THAT(master_->positions(), ElementsAre(1, 2));
  EXPECT_EQ(master_->place(1), "on b");
  EXPECT_EQ(master_->pid(1), -1);
  node.say(Started{1, 99});
  node.say(Started{0, 98});   // not its stage
  node.say(Started{77, 98});  // nobody's
  node.say(FromStage{1, encode_message(Ready{"127.0.0.1", 4711})});
  node.say(FromStage{0, encode_message(Ready{"127.0.0.1", 1})});
  node.say(FromStage{2, "nonsense"});
  node.say(Exited{2, true, 9, "bye"});
  serve_until(node, [this] { return !sink_.exits.empty(); });
  EXPECT_EQ(master_->pid(1), 99);
  ASSERT_EQ(sink_.messages.size(), 1U);
  EXPECT_EQ(std::get<Ready>(sink_.messages[0].second).port, 4711);
  EXPECT_THAT(sink_.nonsense, ElementsAre(2U));
  EXPECT_THAT(sink_.exits, ElementsAre("2 was killed by signal 9 (Killed): bye"));

  master_->send(1, Start{"127.0.0.1", 5});
  master_->send(0, Start{"127.0.0.1", 6});  // not here
  master_->kill_stage(2);
  const NodeMessage to = node.answer();
  ASSERT_TRUE(std::holds_alternative<ToStage>(to));
  EXPECT_EQ(std::get<Start>(*decode_message(std::get<ToStage>(to).message)).upstream_port, 5);
  EXPECT_EQ(std::get<KillStage>(node.answer()).position, 2U);
}

TEST_F(MasterTest, a_beat_is_answered_with_the_masters_time) {
  open();
  Peer node(master_->port());
  begin(node);
  node.say(Beat{1234});
  serve_until(node, [&] { return node.station.seen.answers.size() > node.taken; });
  const auto answer = decode_node_message(node.station.seen.answers[node.taken].second);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(std::get<BeatAnswer>(*answer).sent_at_us, 1234);
  EXPECT_GT(std::get<BeatAnswer>(*answer).at_us, 0);
}

TEST_F(MasterTest, R08_a_node_that_leaves_hangs_up_or_falls_silent_is_lost_by_name) {
  {
    open();
    Peer node(master_->port());
    begin(node);
    node.say(Leaving{ErrorCode::cancelled, "interrupted"});
    serve_until(node, [this] { return !sink_.lost.empty(); });
    EXPECT_EQ(sink_.loss, "cancelled: node b (pid 7, stages 1, 2): interrupted");
    EXPECT_EQ(std::get<RunEnd>(node.answer()).code, ErrorCode::cancelled);
    EXPECT_EQ(master_->pid(1), -1);
    EXPECT_EQ(master_->place(1), "on b") << "it is still known where it was";
  }
  sink_ = Sink();
  {
    open();
    Peer node(master_->port());
    begin(node);
    node.station.plane->hang_up(node.dial);
    serve_until(node, [this] { return !sink_.lost.empty(); });
    EXPECT_THAT(sink_.loss, HasSubstr("stages 1, 2): its connection has ended"));
  }
  sink_ = Sink();
  open(Milliseconds(300));
  Peer node(master_->port());
  begin(node);
  serve_until(node, [this] { return !sink_.lost.empty(); });
  EXPECT_THAT(sink_.lost, ElementsAre(1U, 2U));
  EXPECT_THAT(sink_.loss, HasSubstr("nothing was heard from it for 300 ms"));
}

TEST_F(MasterTest, R10_no_loopback_address_is_told_to_another_host) {
  open();
  Peer node(master_->port());
  begin(node);
  const Ready at_home{"127.0.0.1", 5};
  const Ready abroad{"10.0.0.2", 6};
  EXPECT_TRUE(master_->check_meeting({Ready{"10.0.0.1", 5}, at_home, at_home}).ok())
      << "1 and 2 share a host";
  const Status refused = master_->check_meeting({at_home, abroad, abroad});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message(),
              HasSubstr("stage 0 listens at 127.0.0.1, which stage 1 cannot reach"));
  EXPECT_EQ(master_->check_meeting({Ready{"nonsense", 5}, abroad, abroad}).error().code(),
            ErrorCode::corrupt);
  EXPECT_EQ(master_->check_meeting({abroad, Ready{"10.0.0.2", 70'000}, abroad}).error().code(),
            ErrorCode::corrupt);
}

}  // namespace
}  // namespace stagewire::pipeline
