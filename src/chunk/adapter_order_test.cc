// Order, completeness and separation under any timing: many requests at once over a small pool, with aborts
// from both sides and ids that are used again.
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "chunk/chunk_fixture.hpp"
#include "support/test_seed.hpp"

namespace stagewire::chunk {
namespace {

struct Plan {
  std::string id;
  std::vector<std::size_t> sizes;
};

std::vector<std::byte> payload_of(const Plan& plan, std::size_t chunk) {
  return pattern(plan.sizes[chunk], std::hash<std::string>{}(plan.id) + chunk);
}

std::vector<Plan> make_plans(std::mt19937_64& random, std::size_t count) {
  std::vector<Plan> plans(count);
  for (std::size_t i = 0; i < count; ++i) {
    plans[i].id = "request-" + std::to_string(i);
    plans[i].sizes.resize(random() % 30);
    for (std::size_t& size : plans[i].sizes) size = 1 + random() % (random() % 4 == 0 ? 200'000 : 5'000);
  }
  return plans;
}

void pause(std::uint64_t microseconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(microseconds);
  while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
}

// Saves all plans' chunks, in an order that is random between requests.
void save_all(StagePair& pair, const std::vector<Plan>& plans, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::size_t> next(plans.size());
  std::vector<std::size_t> open(plans.size());
  for (std::size_t i = 0; i < open.size(); ++i) open[i] = i;
  while (!open.empty()) {
    const std::size_t place = random() % open.size();
    const Plan& plan = plans[open[place]];
    const std::size_t chunk = next[open[place]]++;
    if (chunk < plan.sizes.size()) {
      ASSERT_TRUE(pair.save(plan.id, payload_of(plan, chunk)).ok());
    } else {
      ASSERT_TRUE(pair.save_end(plan.id).ok());
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(place));
    }
    if (random() % 8 == 0) pause(random() % 200);
  }
}

class ChunkOrder : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Routes, ChunkOrder, ::testing::Values("auto", "read", "write"),
                         [](const auto& route) { return std::string(route.param); });

TEST_P(ChunkOrder, R05_every_chunk_arrives_once_and_in_order_under_any_timing) {
  const std::uint64_t seed = test::test_seed();
  std::mt19937_64 random(seed);
  ChunkAdapterOptions options;
  options.active_stream_window = random() % 3 == 0 ? 4 : 0;
  StagePair pair({.pool_size = 2 << 20, .route = GetParam()}, options);
  const std::vector<Plan> plans = make_plans(random, 24);
  std::map<std::string, std::size_t> plan_of, received;
  for (std::size_t i = 0; i < plans.size(); ++i) plan_of[StagePair::internal(plans[i].id)] = i;
  std::thread sender([&] { save_all(pair, plans, seed + 1); });
  for (const Plan& plan : plans) EXPECT_TRUE(pair.load(plan.id).ok());
  std::size_t finished = 0;
  while (finished < plans.size()) {
    const ChunkEvent event = pair.next_received();
    if (!event.chunk.ok()) {
      ADD_FAILURE() << event.internal_id << ": " << event.chunk.error().to_string();
      break;
    }
    const std::string id(event.internal_id);
    const Plan& plan = plans[plan_of.at(id)];
    const std::size_t chunk = received[id]++;
    EXPECT_EQ(static_cast<std::size_t>(event.chunk->index), chunk);
    if (event.chunk->finished) {
      EXPECT_EQ(chunk, plan.sizes.size());
      ++finished;
      pair.target->finish(id, plan.id);
      continue;
    }
    EXPECT_EQ(bytes_of(*event.chunk), payload_of(plan, chunk)) << id << " chunk " << chunk;
    if (random() % 4 == 0) pause(random() % 300);
    EXPECT_TRUE(pair.load(plan.id).ok());
  }
  sender.join();
  EXPECT_EQ(pair.source->counters().send_errors, 0U);
  pair.expect_all_returned();
}

// Each use of the id sends bytes of its own; none may see those of another, whoever ends it when.
TEST(ChunkReuse, R07_no_use_of_an_id_gets_a_chunk_of_a_former_one_under_any_timing) {
  std::mt19937_64 random(test::test_seed());
  StagePair pair({.pool_size = 2 << 20});
  ASSERT_TRUE(pair.meet());
  for (std::uint64_t use = 0; use < 200; ++use) {
    const auto bytes = pattern(random() % 2 == 0 ? 200 : 50'000, use);
    const bool receiver_first = random() % 2 == 0;
    if (receiver_first) {
      EXPECT_TRUE(pair.load("r").ok());
    }
    const std::uint64_t count = random() % 6;
    for (std::uint64_t i = 0; i < count; ++i) EXPECT_TRUE(pair.save("r", bytes).ok());
    if (!receiver_first) {
      EXPECT_TRUE(pair.load("r").ok());
    }
    std::vector<ChunkEvent> events;
    for (std::uint64_t i = random() % (count + 1); i > 0; --i) {
      ASSERT_TRUE(pair.target->wait(ms(20'000)));
      pair.target->take(events);
      for (const ChunkEvent& event : events) {
        ASSERT_TRUE(event.chunk.ok()) << "use " << use << ": " << event.chunk.error().to_string();
        ASSERT_EQ(bytes_of(*event.chunk), bytes) << "use " << use << " got a chunk of another";
      }
      EXPECT_TRUE(pair.load("r").ok());
    }
    events.clear();
    pause(random() % 100);
    const bool sender_first = random() % 2 == 0;
    if (sender_first) pair.source->abort("r", "r", "given up");
    pause(random() % 50);
    pair.target->abort("target-r", "r", "given up");
    if (!sender_first) pair.source->abort("r", "r", "given up");
    ASSERT_TRUE(pair.source->flush(ms(20'000)).ok());
    pair.target->take(events);
    pair.source->take(events);
  }
  pair.expect_all_returned();
}

}  // namespace
}  // namespace stagewire::chunk
