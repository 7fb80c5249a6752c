// Keys that are watched ahead: their payloads come without waking anybody, and nobody sleeps through them.
#include <algorithm>
#include <atomic>

#include "connector/connector_fixture.hpp"
#include "support/test_seed.hpp"

namespace stagewire {
namespace {

using testing_support::ConnectorPair;
using testing_support::ms;
using testing_support::pattern;

class Ahead : public ::testing::TestWithParam<WaitStrategy> {};

std::string name_of(const ::testing::TestParamInfo<WaitStrategy>& test) {
  const char* const names[] = {"block", "spin", "adaptive"};
  return names[static_cast<std::size_t>(test.param)];
}

INSTANTIATE_TEST_SUITE_P(Waits, Ahead,
                         ::testing::Values(WaitStrategy::block, WaitStrategy::spin, WaitStrategy::adaptive),
                         name_of);

// Put and get meet at every possible moment: the payload may leave just before the sender hears that somebody
// sleeps until it comes.
TEST_P(Ahead, R05_no_payload_is_slept_through) {
  constexpr int kCount = 600;
  ConnectorPair pair({.wait = GetParam()});
  ASSERT_TRUE(pair.meet());
  std::mt19937_64 random(test::test_seed());
  const auto pause = [](std::uint64_t us) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(us);
    while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
  };
  std::vector<std::uint64_t> put_pauses(kCount);
  for (std::uint64_t& us : put_pauses) us = random() % 120;
  std::thread sender([&] {
    for (int i = 0; i < kCount; ++i) {
      pause(put_pauses[static_cast<std::size_t>(i)]);
      const auto bytes = pattern(i % 3 == 0 ? 20'000 : 64, static_cast<std::uint64_t>(i));
      EXPECT_TRUE(
          pair.sender
              ->put("0", "1", std::to_string(i), std::span<const std::byte>(bytes), {.timeout = ms(60'000)})
              .ok());
    }
  });
  for (int i = 0; i < kCount; ++i) {
    EXPECT_TRUE(pair.receiver->watch("0", "1", std::to_string(i), nullptr).ok());
    pause(random() % 120);
    const auto got = pair.receiver->get("0", "1", std::to_string(i), {.timeout = ms(60'000), .metadata = {}});
    ASSERT_TRUE(got.ok()) << i << ": " << got.error().to_string();
    const auto expected = pattern(i % 3 == 0 ? 20'000 : 64, static_cast<std::uint64_t>(i));
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), got->bytes().begin(), got->bytes().end()));
  }
  sender.join();
  pair.expect_all_returned();
  // A watch that was renewed after it had been answered is not taken for a new one.
  EXPECT_EQ(pair.sender->health().watched, 0U);
}

TEST_P(Ahead, R05_asynchronous_gets_are_told_too) {
  constexpr int kCount = 300;
  ConnectorPair pair({.wait = GetParam()});
  ASSERT_TRUE(pair.meet());
  std::atomic<int> come{0};
  std::thread sender([&] {
    for (int i = 0; i < kCount; ++i) {
      const auto bytes = pattern(64, static_cast<std::uint64_t>(i));
      EXPECT_TRUE(pair.sender->put("0", "1", std::to_string(i), std::span<const std::byte>(bytes), {}).ok());
      while (come.load() < i - 3) std::this_thread::yield();
    }
  });
  for (int i = 0; i < kCount; ++i) {
    EXPECT_TRUE(pair.receiver->watch("0", "1", std::to_string(i), nullptr).ok());
    EXPECT_TRUE(pair.receiver
                    ->get_async("0", "1", std::to_string(i), {.timeout = ms(60'000), .metadata = {}},
                                [&](const Result<Delivery>& got) {
                                  EXPECT_TRUE(got.ok());
                                  ++come;
                                })
                    .ok());
  }
  sender.join();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (come.load() < kCount && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_EQ(come.load(), kCount);
  EXPECT_EQ(pair.sender->health().watched, 0U);
}

}  // namespace
}  // namespace stagewire
