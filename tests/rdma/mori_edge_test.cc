// An edge whose other end is the original connector over MORI-IO: its messages over ZeroMQ, its data by RDMA
// and MORI-IO's protocol. Written from the protocols alone.
#include <future>

#include "compat/original_peer.hpp"
#include "conformance/contract.hpp"
#include "rdma/independent_peer.hpp"

namespace stagewire::rdma_test {
namespace {

using compat::as_text;
using compat::OriginalSender;
using compat::PullFields;
using compat::PullReader;
using conformance::Memory;
using testing_support::all_are;
using testing_support::fill;
using testing_support::kPatience;

constexpr std::size_t kSize = 1 << 20;

std::string text_of(const Octets& octets) {
  return {octets.begin(), octets.end()};
}
Octets octets_of(const std::string& text) {
  return {text.begin(), text.end()};
}

class MoriEdge : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!conformance::has_rdma()) GTEST_SKIP() << "needs an RDMA device, as scripts/rdma-vm has";
  }
  static ConnectorConfig config() {
    ConnectorConfig config;
    config.backend_type = "rdma";
    config.backend_settings = {{"mori_port", "0"}};
    return config;
  }
  IndependentPeer peer_{"original"};
  Memory memory_{kSize};
};

TEST_F(MoriEdge, the_original_receives_what_we_put) {
  const auto sender = compat::make_connector(config());
  ASSERT_NE(sender, nullptr);
  peer_.listen();
  const Octets memory = peer_.add_memory(0, memory_.bytes().data(), kSize);
  std::memset(memory_.bytes().data(), 0x5a, kSize);
  compat::OriginalReceiver receiver(sender->connection_info().zmq_port,
                                    testing_support::config_of("unused", "local"));
  const std::uint64_t free_before = sender->health().pool_free;
  std::vector<std::byte> payload(300'001);
  fill(payload, 1);
  ASSERT_TRUE(sender->put("0", "1", "k", std::span<const std::byte>(payload), {}).ok());
  EXPECT_EQ(receiver.ask(compat::query_of("k@0_1")), compat::reply_of("k@0_1", payload.size(), true));
  const PullFields pull{"k@0_1", text_of(peer_.engine_desc()), text_of(memory), 12'345, payload.size()};
  PullFields beyond = pull;
  beyond.offset = kSize - 300'000;
  EXPECT_EQ(receiver.ask(compat::pull_of(beyond)), "trans_error");
  PullFields unknown = pull;
  unknown.memory[10] = 9;  // another region, which is not there
  EXPECT_EQ(receiver.ask(compat::pull_of(unknown)), "trans_error");
  EXPECT_TRUE(all_are(memory_.bytes(), std::byte{0x5a}));
  peer_.meet_device();
  EXPECT_EQ(receiver.ask(compat::pull_of(pull)), "trans_done");
  peer_.meet_device();
  EXPECT_EQ(std::memcmp(memory_.bytes().data() + 12'345, payload.data(), payload.size()), 0);
  EXPECT_TRUE(all_are(memory_.bytes().first(12'345), std::byte{0x5a}));
  EXPECT_TRUE(all_are(memory_.bytes().subspan(12'345 + payload.size()), std::byte{0x5a}));
  EXPECT_EQ(sender->health().pool_free, free_before);
}

TEST_F(MoriEdge, the_original_sends_what_we_get) {
  OriginalSender sender;
  ConnectorConfig ours = config();
  ours.sender_host = "127.0.0.1";
  ours.sender_zmq_port = sender.port;
  const auto receiver = compat::make_connector(ours);
  ASSERT_NE(receiver, nullptr);
  memory_.fill(2);
  peer_.add_memory(0, memory_.bytes().data(), kSize);
  std::vector<IndependentPeer::Pair> pairs;
  sender.answer_queries([](const std::string&) { return compat::reply_of("k@0_1", 200'000, true); });
  sender.answer_pulls([&](const std::string& request) -> std::optional<std::string> {
    const PullFields pull = PullReader(request).read();
    const auto engine = IndependentPeer::read_engine(octets_of(pull.engine));
    const auto target = IndependentPeer::read_memory(octets_of(pull.memory));
    if (pairs.empty()) pairs.push_back(peer_.connect(engine));
    const auto region = peer_.ask_region(engine, pairs[0].peer_device, target.id);
    if (region.size != target.size || region.address != target.address) return "trans_error";
    const auto moved = peer_.move(pairs[0], true, 0, 4096, region, pull.offset, pull.length);
    if (moved != IBV_WC_SUCCESS) return "trans_error";
    peer_.notify(pairs, 1);
    return "trans_done";
  });
  for (int round = 0; round < 3; ++round) {
    auto got = receiver->get("0", "1", "k", {.timeout = kPatience, .metadata = {}});
    ASSERT_TRUE(got.ok()) << got.error().to_string();
    EXPECT_EQ(got->route(), Route::write);
    ASSERT_EQ(got->size(), 200'000U);
    peer_.meet_device();
    EXPECT_EQ(std::memcmp(got->bytes().data(), memory_.bytes().data() + 4096, got->size()), 0);
  }
  EXPECT_EQ(receiver->health().pool_free, receiver->health().pool_size);
}

// R01: the sender is too late. What it was told is worth nothing any more, so nothing is kept back for it.
TEST_F(MoriEdge, R01_a_write_after_the_deadline_does_not_land) {
  OriginalSender sender;
  ConnectorConfig ours = config();
  ours.sender_host = "127.0.0.1";
  ours.sender_zmq_port = sender.port;
  ours.original_timeout_s = 0.3;
  const auto receiver = compat::make_connector(ours);
  ASSERT_NE(receiver, nullptr);
  memory_.fill(3);
  peer_.add_memory(0, memory_.bytes().data(), kSize);
  sender.answer_queries([](const std::string&) { return compat::reply_of("k@0_1", 200'000, true); });
  struct Told {
    IndependentPeer::Pair pair;
    IndependentPeer::Region region;
    std::uint64_t offset = 0;
  };
  std::promise<Told> told;
  sender.answer_pulls([&](const std::string& request) -> std::optional<std::string> {
    const PullFields pull = PullReader(request).read();
    const auto engine = IndependentPeer::read_engine(octets_of(pull.engine));
    Told now;
    now.pair = peer_.connect(engine);
    now.region = peer_.ask_region(engine, now.pair.peer_device,
                                  IndependentPeer::read_memory(octets_of(pull.memory)).id);
    now.offset = pull.offset;
    told.set_value(now);
    return std::nullopt;
  });
  const auto lost = receiver->get("0", "1", "k", {.timeout = kPatience, .metadata = {}});
  ASSERT_FALSE(lost.ok());
  EXPECT_EQ(lost.error().code(), ErrorCode::timeout);
  const Told late = told.get_future().get();
  EXPECT_EQ(peer_.move(late.pair, true, 0, 0, late.region, late.offset, 200'000), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(receiver->health().pool_quarantined, 0U);
  EXPECT_EQ(receiver->health().pool_free, receiver->health().pool_size);
}

}  // namespace
}  // namespace stagewire::rdma_test
