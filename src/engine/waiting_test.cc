// Threads that wait in the same engine hand its descriptors to each other; no wake may get lost on the way.
#include <algorithm>
#include <array>

#include "engine/engine_fixture.hpp"

namespace stagewire::engine {
namespace {

using namespace testing_support;

class WaitTest : public ::testing::TestWithParam<WaitStrategy> {};

std::string name_of(const ::testing::TestParamInfo<WaitStrategy>& strategy) {
  const char* names[] = {"block", "spin", "adaptive"};
  return names[static_cast<std::size_t>(strategy.param)];
}

INSTANTIATE_TEST_SUITE_P(Strategies, WaitTest,
                         ::testing::Values(WaitStrategy::block, WaitStrategy::spin, WaitStrategy::adaptive),
                         name_of);

// Each thread waits for its own notification of each round, so that whoever drives is never the only one
// whose turn it is. A lost wake ends in a timeout.
TEST_P(WaitTest, R05_no_wake_is_lost_between_threads_that_wait) {
  constexpr std::uint32_t kThreads = 4;
  constexpr std::uint32_t kRounds = 100;
  IOEngineConfig config;
  config.wait = GetParam();
  EnginePair pair("shm", config);
  const auto source = pair.near_memory(4096);
  const auto target = pair.far_memory(4096, Access::remote_write);
  std::array<std::atomic<std::uint32_t>, kThreads> seen{};
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint32_t round = 1; round <= kRounds; ++round) {
        const Status arrived = pair.far->wait_inbound("near", round * kThreads + t, kPatience);
        ASSERT_TRUE(arrived.ok()) << words(arrived);
        seen[t] = round;
      }
    });
  }
  std::mt19937 random(7);
  for (std::uint32_t round = 1; round <= kRounds; ++round) {
    std::array<std::uint32_t, kThreads> order = {0, 1, 2, 3};
    std::shuffle(order.begin(), order.end(), random);
    for (const std::uint32_t t : order) {
      const Transfer transfer = pair.near->write(source->desc(), 0, target->desc(), 0, 8,
                                                 {.id = round * kThreads + t, .notify = true});
      ASSERT_NE(transfer->state(), TransferState::failed) << transfer->message();
      // Often the others sleep by now, and sometimes not.
      if (random() % 2 != 0) continue;
      ASSERT_TRUE(eventually([&] { return seen[t] == round; }));
    }
  }
  for (auto& thread : threads) thread.join();
}

TEST_P(WaitTest, R05_threads_wait_for_transfers_of_their_own) {
  constexpr std::size_t kThreads = 4;
  EnginePair pair("shm");
  IOEngineConfig config = config_of("reader", "shm");
  config.wait = GetParam();
  const auto reader = make_engine(config);
  ASSERT_TRUE(reader->register_remote_engine(pair.far->desc()).ok());
  const auto source = pair.far_memory(1 << 20, Access::remote_read);
  const auto target = EnginePair::memory_of(*reader, kThreads << 20, Access::local_only);
  fill(source->bytes(), 3);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 40; ++round) {
        const std::uint64_t size = 1 + static_cast<std::uint64_t>(round) * 10'000;
        const Transfer transfer = reader->read(target->desc(), t << 20U, source->desc(), 0, size);
        ASSERT_TRUE(transfer->wait_for(kPatience).ok()) << transfer->message();
        ASSERT_EQ(std::memcmp(target->bytes().data() + (t << 20U), source->bytes().data(), size), 0);
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

// Nothing happens in an engine that is driven by hand but what its owner's calls do.
TEST(HandDriven, R05_two_engines_work_by_progress_alone) {
  IOEngineConfig by_hand;
  by_hand.progress_thread = false;
  for (const char* backend : {"local", "shm"}) {
    EnginePair pair(backend, by_hand);
    IOEngineConfig config = config_of("near", backend);
    config.progress_thread = false;
    pair.near = make_engine(config);
    ASSERT_TRUE(pair.near->register_remote_engine(pair.far->desc()).ok());
    ASSERT_TRUE(pair.far->register_remote_engine(pair.near->desc()).ok());
    const auto source = pair.near_memory(1 << 20);
    const auto target = pair.far_memory(1 << 20, Access::remote_write);
    fill(source->bytes(), 4);
    const Transfer transfer =
        pair.near->write(source->desc(), 0, target->desc(), 0, 1 << 20, {.id = 9, .notify = true});
    bool arrived = false;
    ASSERT_TRUE(eventually([&] {
      pair.near->progress();
      pair.far->progress();
      arrived = arrived || pair.far->pop_inbound("near", 9);
      return arrived && transfer->state() != TransferState::pending;
    })) << transfer->message();
    EXPECT_EQ(transfer->state(), TransferState::done) << transfer->message();
    EXPECT_EQ(std::memcmp(source->bytes().data(), target->bytes().data(), 1 << 20), 0);
  }
}

TEST(HandDriven, R05_a_waiting_owner_drives_its_engine) {
  IOEngineConfig config = config_of("near", "shm");
  config.progress_thread = false;
  EnginePair pair("shm");
  pair.near = make_engine(config);
  ASSERT_TRUE(pair.near->register_remote_engine(pair.far->desc()).ok());
  const auto source = pair.far_memory(1 << 20, Access::remote_read);
  const auto target = pair.near_memory(1 << 20);
  fill(source->bytes(), 5);
  const Transfer transfer = pair.near->read(target->desc(), 0, source->desc(), 0, 1 << 20);
  ASSERT_TRUE(transfer->wait_for(kPatience).ok()) << transfer->message();
  EXPECT_EQ(std::memcmp(source->bytes().data(), target->bytes().data(), 1 << 20), 0);
  EXPECT_EQ(code_of(pair.near->wait_inbound("far", 1, ms(10))), ErrorCode::timeout);
}

}  // namespace
}  // namespace stagewire::engine
