#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>

#include "backend/builtin_backends.hpp"
#include "backends/fault/dice.hpp"

namespace stagewire::backends::fault {
namespace {

class Numbers final : public EventSink {
 public:
  PeerToken on_peer_arrived(std::span<const std::byte>, std::string_view) override { return 1; }
  void on_completion(Completion&& completion) override { completions.push_back(std::move(completion)); }
  void on_notification(PeerToken, std::uint32_t) override {}
  void on_message(PeerToken, std::span<const std::byte> message, MessagePayload) override {
    received.push_back(static_cast<int>(message[0]));
  }
  void on_peer_lost(PeerToken, const Error&) override {}
  std::vector<int> received;
  std::vector<Completion> completions;
};

/// With what differs, however long they are.
::testing::AssertionResult same(const std::vector<int>& a, const std::vector<int>& b) {
  const auto [left, right] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  if (left == a.end() && right == b.end()) return ::testing::AssertionSuccess();
  auto result = ::testing::AssertionFailure() << "from place " << left - a.begin() << " on:";
  for (auto at = left; at != a.end(); ++at) result << ' ' << *at;
  result << "\nis not";
  for (auto at = right; at != b.end(); ++at) result << ' ' << *at;
  return result;
}

/// What of 0 to 99 arrives under this specification.
std::vector<int> send_hundred(const std::string& spec) {
  BackendOptions options;
  options.fault_spec = spec;
  const auto sender = backend::create_backend("local", options);
  const auto receiver = backend::create_backend("fault", options);
  const auto endpoint = (*sender)->connect((*receiver)->address());
  for (int i = 0; i < 100; ++i) {
    const std::byte number{static_cast<unsigned char>(i)};
    EXPECT_TRUE((*endpoint)->send(std::span(&number, 1), {}, true).ok());
  }
  Numbers sink;
  // Asleep while something is held back: its timer wakes us.
  for (;;) {
    (*receiver)->progress(sink, false);
    if (!(*receiver)->arm()) continue;
    pollfd waited{(*receiver)->wait_fd(), POLLIN, 0};
    if (::poll(&waited, 1, 20) == 0) break;
  }
  return sink.received;
}

TEST(Fault, the_same_seed_does_the_same) {
  const auto first = send_hundred("over=local,drop=0.2,duplicate=0.1,reorder=0.1,seed=7");
  EXPECT_TRUE(same(first, send_hundred("over=local,drop=0.2,duplicate=0.1,reorder=0.1,seed=7")));
  EXPECT_NE(first, send_hundred("over=local,drop=0.2,duplicate=0.1,reorder=0.1,seed=8"));
}

TEST(Fault, does_what_it_says) {
  EXPECT_EQ(send_hundred("over=local").size(), 100U);
  EXPECT_EQ(send_hundred("over=local,drop=1").size(), 0U);
  EXPECT_EQ(send_hundred("over=local,duplicate=1").size(), 200U);
  const auto delayed = send_hundred("over=local,delay_ms=2");
  EXPECT_EQ(delayed.size(), 100U);
  EXPECT_TRUE(std::is_sorted(delayed.begin(), delayed.end()));
  const auto reordered = send_hundred("over=local,reorder=0.5");
  EXPECT_EQ(reordered.size(), 100U);
  EXPECT_FALSE(std::is_sorted(reordered.begin(), reordered.end()));
}

TEST(Fault, requests_fail_without_moving_a_byte) {
  BackendOptions options;
  options.fault_spec = "over=local,fail=1";
  const auto a = backend::create_backend("fault", options);
  const auto b = backend::create_backend("fault", options);
  std::vector<std::byte> bytes(16, std::byte{1});
  std::vector<std::byte> target(16, std::byte{2});
  MemoryRegion region;
  region.data = bytes.data();
  region.size = bytes.size();
  const auto remote = (*b)->register_region(region, Access::remote_read);
  region.data = target.data();
  const auto local = (*a)->register_region(region, Access::local_only);
  const auto endpoint = (*a)->connect((*b)->address());
  const auto imported = (*endpoint)->import((*remote)->remote_key());
  const Segment whole{0, 0, 16};
  WorkRequest request;
  request.id = 5;
  request.local = local->get();
  request.remote = imported->get();
  request.segments = std::span(&whole, 1);
  EXPECT_EQ(*(*endpoint)->post(request), Posted::pending);
  Numbers sink;
  while (sink.completions.empty()) (*a)->progress(sink, false);
  EXPECT_EQ(sink.completions[0].id, 5U);
  EXPECT_EQ(sink.completions[0].status.error().code(), ErrorCode::failed);
  EXPECT_EQ(target[0], std::byte{2});
}

TEST(FaultSpec, names_what_it_does_not_understand) {
  EXPECT_TRUE(FaultSpec::parse("").ok());
  EXPECT_EQ(FaultSpec::parse("delay_ms=2.5")->delay, std::chrono::microseconds(2500));
  for (const char* wrong : {"drop", "drop=2", "drop=x", "drop=0.1x", "drop=nan", "delay_ms=-1", "lose=1",
                            "over=fault", "over=", "seed=1,,", "seed=-1"}) {
    const auto parsed = FaultSpec::parse(wrong);
    ASSERT_FALSE(parsed.ok()) << wrong;
    EXPECT_EQ(parsed.error().code(), ErrorCode::invalid_argument);
  }
}

}  // namespace
}  // namespace stagewire::backends::fault
