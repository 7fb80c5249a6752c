// Random work under random trouble: whatever breaks, everything ends well, once and in order.
#include <algorithm>
#include <array>
#include <cerrno>
#include <random>

#include "fake_verbs/fixture.hpp"
#include "support/test_seed.hpp"

namespace stagewire::fake_verbs {
namespace {

/// One direction: what was asked for, and what has to come of it.
struct Flow {
  Side* from = nullptr;
  Side* to = nullptr;
  std::unique_ptr<Endpoint> endpoint;
  std::unique_ptr<Registration> local, remote;
  std::unique_ptr<RemoteRegion> imported;
  std::uint64_t posted = 0;
  std::uint32_t notified = 0;
  std::uint32_t sent = 0;
};

class FakeVerbsStorm : public FakeVerbs {
 protected:
  static constexpr std::size_t kSize = 1 << 20;

  void TearDown() override {
    flows_[0] = {};
    flows_[1] = {};
    FakeVerbs::TearDown();
  }
  std::uint64_t random(std::uint64_t below) {
    return std::uniform_int_distribution<std::uint64_t>(0, below - 1)(random_);
  }
  bool odd() { return random(2) == 1; }

  void set_up(Flow& flow, Side& from, Side& to) {
    flow.from = &from;
    flow.to = &to;
    flow.endpoint = from.connect(to);
    ASSERT_TRUE(until([&] { return flow.endpoint->status().has_value(); }));
    ASSERT_TRUE(flow.endpoint->status()->ok());
    flow.local = from.add(here_.region());
    flow.remote = to.add(there_.region(), Access::remote_read_write);
    flow.imported = import(*flow.endpoint, *flow.remote);
  }
  void post_something(Flow& flow) {
    std::vector<Segment> segments;
    for (std::uint64_t i = random(6); i > 0; --i) {
      const std::uint64_t size = random(kSize / 8);
      segments.push_back({random(kSize - size), random(kSize - size), size});
    }
    WorkRequest request = request_of(flow.posted, odd() ? Operation::read : Operation::write, *flow.local,
                                     *flow.imported, segments);
    if (odd()) request.notification = flow.notified;
    const auto posted = flow.endpoint->post(request);
    ASSERT_TRUE(posted.ok()) << posted.error().to_string();
    if (*posted == Posted::full) return;
    ++flow.posted;
    if (request.notification) ++flow.notified;
  }
  void send_something(Flow& flow) {
    PayloadSlot slot;
    if (odd()) slot = flow.endpoint->reserve(1 + random(1024));
    if (!slot.bytes.empty() && random(4) == 0) return flow.endpoint->abandon(slot);
    for (std::byte& byte : slot.bytes) byte = static_cast<std::byte>(flow.sent);
    const auto sent = flow.endpoint->send(std::as_bytes(std::span(&flow.sent, 1)), slot, odd());
    ASSERT_TRUE(sent.ok()) << sent.error().to_string();
    if (*sent == Posted::completed) {
      ++flow.sent;
    } else {
      flow.endpoint->abandon(slot);
    }
  }
  void make_trouble() {
    switch (random(5)) {
      case 0:
        return control().set_network(static_cast<int>(random(2)), false);
      case 1:
        return control().set_port(static_cast<int>(random(2)), false);
      case 2:
        return control().fail_request(static_cast<int>(1 + random(20)),
                                      odd() ? IBV_WC_GENERAL_ERR : IBV_WC_FATAL_ERR, 1);
      case 3:
        return control().fail_call("post_send", static_cast<int>(1 + random(20)), ENOMEM);
      default:
        return control().fail_call(odd() ? "modify_qp" : "create_qp", static_cast<int>(1 + random(4)),
                                   ENOMEM);
    }
  }
  void mend() {
    for (const int device : {0, 1}) control().set_port(device, true);
  }
  static void expect_all(const Flow& flow) {
    std::vector<int> ended(flow.posted);
    for (const Completion& completion : flow.from->events.completions) {
      EXPECT_TRUE(completion.status.ok()) << completion.status.error().to_string();
      ++ended.at(completion.id);
    }
    for (const int times : ended) EXPECT_EQ(times, 1);
    std::vector<int> notified(flow.notified);
    for (const auto& [peer, number] : flow.to->events.notifications) ++notified.at(number);
    for (const int times : notified) EXPECT_EQ(times, 1);
    ASSERT_EQ(flow.to->events.messages.size(), flow.sent);
    for (std::uint32_t i = 0; i < flow.sent; ++i) {
      std::uint32_t number = 0;
      std::memcpy(&number, flow.to->events.messages[i].bytes.data(), sizeof number);
      ASSERT_EQ(number, i);
    }
    EXPECT_TRUE(flow.to->events.lost.empty());
  }

  std::mt19937_64 random_;
  const Memory here_{kSize};
  const Memory there_{kSize};
  std::array<Flow, 2> flows_;
};

TEST_F(FakeVerbsStorm, R05_everything_ends_well_once_and_in_order_whatever_breaks) {
  random_.seed(test::test_seed());
  control().set_devices(2);
  const bool many_pairs = odd();
  // Just enough for two links and the greetings.
  Limits limits;
  limits.completion_entries = many_pairs ? 1950 : 900;
  control().set_limits(limits);
  make_sides({{"rdma_recovery_timeout_ms", "3600000"}, {"qp_per_transfer", many_pairs ? "3" : "1"}});
  set_up(flows_[0], *a_, *b_);
  set_up(flows_[1], *b_, *a_);
  ASSERT_FALSE(HasFatalFailure());
  // A payload is looked at and given back, so that there is room for the next.
  for (Side* side : {a_.get(), b_.get()}) {
    side->events.when_message = [](conformance::Recorder::Message& message) {
      for (const std::byte byte : message.payload.bytes()) EXPECT_EQ(byte, message.bytes[0]);
      message.payload = {};
    };
  }
  for (int round = 0; round < 40; ++round) {
    make_trouble();
    for (std::uint64_t step = random(10'000); step > 0; --step) {
      Flow& flow = flows_[random(2)];
      if (random(20) == 0) post_something(flow);
      if (random(5) == 0) send_something(flow);
      if (odd()) a_->step();
      if (odd()) b_->step();
      ASSERT_FALSE(HasFatalFailure());
    }
    mend();
  }
  for (const char* function : {"post_send", "modify_qp", "create_qp"}) control().fail_call(function, 0, 0);
  ASSERT_TRUE(until([&] {
    return std::all_of(flows_.begin(), flows_.end(), [](const Flow& flow) {
      return flow.from->events.completions.size() >= flow.posted &&
             flow.to->events.notifications.size() >= flow.notified &&
             flow.to->events.messages.size() >= flow.sent;
    });
  }));
  expect_all(flows_[0]);
  expect_all(flows_[1]);
}

}  // namespace
}  // namespace stagewire::fake_verbs
