// How transfers end: each exactly once, whatever happens to them (R05), and what they touch stays until then.
//
// A far engine that is driven by hand holds transfers under way for as long as the test wants: it answers
// nothing before progress() is called.
#include <future>

#include "engine/earlier_instances.hpp"
#include "engine/engine_fixture.hpp"
#include "support/test_seed.hpp"

namespace stagewire::engine {
namespace {

using namespace testing_support;

IOEngineConfig by_hand() {
  IOEngineConfig config;
  config.progress_thread = false;
  return config;
}

// Until the transfer has ended.
void drive(IOEngine& engine, const Transfer& transfer) {
  ASSERT_TRUE(eventually([&] {
    engine.progress();
    return transfer->state() != TransferState::pending;
  }));
}

struct HeldPair : EnginePair {
  HeldPair() : EnginePair("shm", by_hand()) {
    source = near_memory(1 << 20);
    target = far_memory(1 << 20, Access::remote_write);
    fill(source->bytes(), 1);
  }
  Transfer write(const TransferOptions& options = {}) const {
    return near->write(source->desc(), 0, target->desc(), 0, 1 << 20, options);
  }
  std::unique_ptr<EngineMemory> source;
  std::unique_ptr<EngineMemory> target;
};

TEST(Ending, R05_a_transfer_that_the_peer_does_not_take_ends_at_its_timeout) {
  HeldPair pair;
  EndCounter counter;
  const Transfer late = pair.write({.timeout = ms(30)});
  counter.watch(late);
  const Status ended = late->wait_for(kPatience);
  ASSERT_EQ(code_of(ended), ErrorCode::timeout);
  EXPECT_NE(ended.error().message().find("30 ms"), std::string::npos) << ended.error().message();
  EXPECT_NE(ended.error().message().find("far"), std::string::npos) << ended.error().message();
  EXPECT_EQ(late->state(), TransferState::failed);
  // What was given up is not done later.
  const Transfer next = pair.near->write(pair.source->desc(), 0, pair.target->desc(), 1000, 1000);
  drive(*pair.far, next);
  EXPECT_EQ(next->state(), TransferState::done) << next->message();
  EXPECT_TRUE(all_are(pair.target->bytes().first(1000), std::byte{0}));
  EXPECT_EQ(counter.await(1), 1);
  EXPECT_EQ(counter.done, 0);
}

TEST(Ending, R05_waiting_shorter_than_the_transfer_leaves_it_under_way) {
  HeldPair pair;
  const Transfer transfer = pair.write();
  EXPECT_EQ(code_of(transfer->wait_for(ms(10))), ErrorCode::timeout);
  EXPECT_EQ(transfer->state(), TransferState::pending);
  EXPECT_FALSE(transfer->error().has_value());
  EXPECT_EQ(transfer->message(), "");
  drive(*pair.far, transfer);
  EXPECT_TRUE(transfer->wait_for(ms(0)).ok());
  EXPECT_EQ(std::memcmp(pair.target->bytes().data(), pair.source->bytes().data(), 1 << 20), 0);
}

TEST(Ending, R05_cancelling_ends_it_once) {
  HeldPair pair;
  EndCounter counter;
  const Transfer transfer = pair.write();
  counter.watch(transfer);
  counter.watch(transfer);
  std::thread other([&] { transfer->cancel(); });
  transfer->cancel();
  other.join();
  EXPECT_EQ(code_of(transfer), ErrorCode::cancelled);
  counter.watch(transfer);  // ended: called here and now
  EXPECT_EQ(counter.await(3), 3);
  transfer->cancel();
  EXPECT_EQ(counter.await(3), 3);
  const Transfer next = pair.near->write(pair.source->desc(), 0, pair.target->desc(), 1000, 10);
  drive(*pair.far, next);
  EXPECT_TRUE(all_are(pair.target->bytes().first(1000), std::byte{0}));
}

TEST(Ending, a_transfer_goes_on_without_its_handle) {
  HeldPair pair;
  EndCounter counter;
  {
    const Transfer transfer = pair.write();
    counter.watch(transfer);
  }
  ASSERT_TRUE(eventually([&] {
    pair.far->progress();
    return counter.done == 1;
  }));
  EXPECT_EQ(std::memcmp(pair.target->bytes().data(), pair.source->bytes().data(), 1 << 20), 0);
}

TEST(Ending, R01_a_region_is_not_given_up_before_its_transfers_have_ended) {
  HeldPair pair;
  const Transfer transfer = pair.write();
  const Status refused = pair.near->deregister_memory(pair.source->desc(), ms(20));
  ASSERT_EQ(code_of(refused), ErrorCode::timeout);
  EXPECT_NE(refused.error().message().find("1 transfers"), std::string::npos) << refused.error().message();
  auto gone = std::async(std::launch::async, [&] { pair.source.reset(); });
  drive(*pair.far, transfer);
  gone.get();
  EXPECT_EQ(transfer->state(), TransferState::done);
}

// The registration ends with the memory, also when a handle of a transfer still knows of it: its file
// descriptor may be another file's by now.
TEST(Ending, R16_what_was_deregistered_is_not_served_because_a_handle_is_kept) {
  EnginePair pair("shm");
  auto theirs = pair.far_memory(4096, Access::remote_read_write);
  const auto more = pair.far_memory(4096, Access::remote_read);
  const Transfer kept = pair.far->read(theirs->desc(), 0, more->desc(), 0, 10);
  ASSERT_TRUE(kept->wait_for(kPatience).ok());
  const auto session = pair.far->create_session(theirs->desc(), more->desc());
  ASSERT_TRUE(session.ok());
  const MemoryDesc gone = theirs->desc();
  theirs.reset();
  const auto mine = pair.near_memory(4096);
  EXPECT_EQ(code_of(pair.near->read(mine->desc(), 0, gone, 0, 10)), ErrorCode::not_found);
}

TEST(Ending, R05_closing_ends_every_transfer_once) {
  HeldPair pair;
  EndCounter counter;
  std::vector<Transfer> transfers;
  for (int i = 0; i < 50; ++i) {
    transfers.push_back(pair.write());
    counter.watch(transfers.back());
  }
  auto waiting = std::async(std::launch::async, [&] { return transfers[7]->wait_for(kPatience); });
  std::thread other([&] { pair.near->close(); });
  pair.near->close();
  other.join();
  EXPECT_EQ(code_of(waiting.get()), ErrorCode::closed);
  for (const Transfer& transfer : transfers) EXPECT_EQ(code_of(transfer), ErrorCode::closed);
  EXPECT_EQ(counter.await(50), 50);
  EXPECT_EQ(code_of(pair.write()), ErrorCode::closed);
  EXPECT_EQ(code_of(pair.near->register_remote_engine(pair.far->desc())), ErrorCode::closed);
  EXPECT_EQ(code_of(pair.near->wait_inbound("far", 1, kPatience)), ErrorCode::unavailable);
}

#ifdef __SANITIZE_THREAD__
constexpr int kCancelRounds = 6;  // every byte of 5 MB is looked at four times a round
#else
constexpr int kCancelRounds = 40;
#endif

// Random transfers, cancelled at random from another thread: each ends once, the ones that are done are
// whole, and the others say when their memory is free for the next round.
TEST(Ending, R01_R05_cancelling_at_any_moment_ends_each_transfer_once) {
  EnginePair pair("shm");
  constexpr std::size_t kSlot = 300'000;
  constexpr std::size_t kSlots = 16;
  const auto source = pair.far_memory(kSlot * kSlots, Access::remote_read);
  const auto target = pair.near_memory(kSlot * kSlots);
  fill(source->bytes(), 9);
  const std::uint64_t seed = test::test_seed();
  SCOPED_TRACE("STAGEWIRE_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < kCancelRounds; ++round) {
    std::memset(target->bytes().data(), 0, target->bytes().size());
    EndCounter counter;
    std::vector<Transfer> transfers;
    for (std::size_t slot = 0; slot < kSlots; ++slot) {
      transfers.push_back(pair.near->read(target->desc(), slot * kSlot, source->desc(), slot * kSlot, kSlot));
      counter.watch(transfers.back());
    }
    const std::uint64_t cancelled = random();
    for (std::size_t slot = 0; slot < kSlots; ++slot) {
      if (((cancelled >> slot) & 1U) != 0) transfers[slot]->cancel();
    }
    for (std::size_t slot = 0; slot < kSlots; ++slot) {
      const auto code = code_of(transfers[slot]);
      EXPECT_TRUE(!code || *code == ErrorCode::cancelled) << transfers[slot]->message();
      if (code) continue;
      EXPECT_EQ(
          std::memcmp(target->bytes().data() + slot * kSlot, source->bytes().data() + slot * kSlot, kSlot),
          0);
    }
    EXPECT_EQ(counter.await(static_cast<int>(kSlots)), static_cast<int>(kSlots));
    for (const Transfer& transfer : transfers) ASSERT_TRUE(transfer->wait_quiet(kPatience).ok());
  }
}

// --- Restarted and lost peers
// ----------------------------------------------------------------------------------------------

class RestartTest : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Backends, RestartTest, ::testing::Values("local", "shm"),
                         [](const auto& backend) { return std::string(backend.param); });

TEST_P(RestartTest, R09_a_restarted_peer_of_the_same_key_works_at_once) {
  EnginePair pair(GetParam());
  const auto mine = pair.near_memory(100'000);
  const auto mailbox = EnginePair::memory_of(*pair.near, 4096, Access::remote_write);
  for (int restart = 0; restart < 5; ++restart) {
    auto theirs = pair.far_memory(100'000, Access::remote_read);
    fill(theirs->bytes(), static_cast<std::uint64_t>(restart));
    // Both have heard of each other: nothing of this instance is on its way any more when the next one comes.
    ASSERT_TRUE(pair.far->register_remote_engine(pair.near->desc()).ok());
    const Transfer greeting =
        pair.far->write(theirs->desc(), 0, mailbox->desc(), 0, 10, {.id = 9, .notify = true});
    ASSERT_TRUE(pair.near->wait_inbound("far", 9, kPatience).ok());
    ASSERT_TRUE(greeting->wait_for(kPatience).ok());
    const Transfer transfer = pair.near->read(mine->desc(), 0, theirs->desc(), 0, 100'000);
    ASSERT_TRUE(transfer->wait_for(kPatience).ok()) << transfer->message();
    EXPECT_EQ(std::memcmp(mine->bytes().data(), theirs->bytes().data(), 100'000), 0);
    const MemoryDesc old = theirs->desc();
    theirs.reset();
    pair.far = make_engine(config_of("far", GetParam()));
    ASSERT_TRUE(pair.near->register_remote_engine(pair.far->desc()).ok());
    const Status stale = pair.near->read(mine->desc(), 0, old, 0, 10)->wait_for(kPatience);
    ASSERT_EQ(code_of(stale), ErrorCode::unavailable);
    EXPECT_NE(stale.error().message().find("earlier instance"), std::string::npos) << stale.error().message();
  }
}

TEST_P(RestartTest, R09_notifications_of_an_earlier_instance_are_not_taken_for_the_new_ones) {
  EnginePair pair(GetParam());
  auto target = pair.near_memory(4096, Access::remote_write);
  for (int restart = 0; restart < 3; ++restart) {
    const auto source = EnginePair::memory_of(*pair.far, 4096, Access::local_only);
    const Transfer popped =
        pair.far->write(source->desc(), 0, target->desc(), 0, 10, {.id = 5, .notify = true});
    const Transfer left =
        pair.far->write(source->desc(), 0, target->desc(), 0, 10, {.id = 6, .notify = true});
    // Not sticky: the loss of the earlier instance does not end a wait for this one.
    ASSERT_TRUE(pair.near->wait_inbound("far", 5, kPatience).ok());
    ASSERT_TRUE(left->wait_for(kPatience).ok());
    ASSERT_TRUE(popped->wait_for(kPatience).ok());
    const Transfer last =
        pair.far->write(source->desc(), 0, target->desc(), 0, 10, {.id = 7, .notify = true});
    ASSERT_TRUE(pair.near->wait_inbound("far", 7, kPatience).ok());  // 6 has arrived before it
    if (restart == 2) break;
    pair.far = make_engine(config_of("far", GetParam()));
    ASSERT_TRUE(pair.near->register_remote_engine(pair.far->desc()).ok());
    ASSERT_TRUE(pair.far->register_remote_engine(pair.near->desc()).ok());
    EXPECT_FALSE(pair.near->pop_inbound("far", 6));
  }
  EXPECT_TRUE(pair.near->pop_inbound("far", 6));
}

TEST_P(RestartTest, R05_a_lost_peer_ends_transfers_and_waits) {
  EnginePair pair(GetParam());
  const auto mine = pair.near_memory(4096);
  MemoryDesc theirs;
  {
    const auto memory = pair.far_memory(4096, Access::remote_read);
    theirs = memory->desc();
    ASSERT_TRUE(pair.near->read(mine->desc(), 0, theirs, 0, 10)->wait_for(kPatience).ok());
  }
  auto waiting =
      std::async(std::launch::async, [&] { return pair.near->wait_inbound("far", 77, kPatience); });
  pair.far.reset();
  EXPECT_EQ(code_of(waiting.get()), ErrorCode::unavailable);
  ASSERT_TRUE(eventually(
      [&] { return code_of(pair.near->read(mine->desc(), 0, theirs, 0, 10)) == ErrorCode::not_found; }));
}

TEST_P(RestartTest, a_deregistered_peer_is_not_known_any_more) {
  EnginePair pair(GetParam());
  const auto mine = pair.near_memory(4096);
  const auto theirs = pair.far_memory(4096, Access::remote_read);
  ASSERT_TRUE(pair.near->read(mine->desc(), 0, theirs->desc(), 0, 10)->wait_for(kPatience).ok());
  ASSERT_TRUE(pair.near->deregister_remote_engine(pair.far->desc()).ok());
  EXPECT_EQ(code_of(pair.near->deregister_remote_engine(pair.far->desc())), ErrorCode::not_found);
  EXPECT_EQ(code_of(pair.near->read(mine->desc(), 0, theirs->desc(), 0, 10)), ErrorCode::not_found);
}

TEST_P(RestartTest, R09_a_peer_can_be_registered_again) {
  EnginePair pair(GetParam());
  const auto mine = pair.near_memory(4096, Access::remote_read_write);
  const auto theirs = pair.far_memory(4096, Access::remote_read);
  for (std::uint32_t round = 1; round < 5; ++round) {
    // Both have heard of each other: nothing of this registration is on its way when the next one comes.
    ASSERT_TRUE(pair.far->register_remote_engine(pair.near->desc()).ok());
    ASSERT_TRUE(pair.far->write(theirs->desc(), 0, mine->desc(), 0, 10, {.id = round, .notify = true})
                    ->wait_for(kPatience)
                    .ok());
    ASSERT_TRUE(pair.near->wait_inbound("far", round, kPatience).ok());
    ASSERT_TRUE(pair.near->read(mine->desc(), 0, theirs->desc(), 0, 10)->wait_for(kPatience).ok());
    ASSERT_TRUE(pair.near->deregister_remote_engine(pair.far->desc()).ok());
    ASSERT_TRUE(pair.near->register_remote_engine(pair.far->desc()).ok());
    ASSERT_TRUE(eventually([&] { return !pair.far->deregister_remote_engine(pair.near->desc()).ok(); }));
  }
}

// Two engines that nothing moves but the test.
struct PairByHand {
  PairByHand() {
    near = make("near");
    far = make("far");
  }
  static std::unique_ptr<IOEngine> make(const std::string& key) {
    IOEngineConfig config = by_hand();
    config.key = key;
    config.backends = {"shm"};
    return make_engine(config);
  }
  // Until nothing happens any more: what one says is heard by the other at its next turn.
  void settle() const {
    for (int quiet = 0; quiet < 50;) quiet = near->progress() + far->progress() > 0 ? 0 : quiet + 1;
  }
  bool near_knows_far() const { return near->deregister_remote_engine(far->desc()).ok(); }
  std::unique_ptr<IOEngine> near;
  std::unique_ptr<IOEngine> far;
};

TEST(LateHello, R09_of_a_deregistered_peer_does_not_make_it_known_again) {
  const PairByHand pair;
  ASSERT_TRUE(pair.near->register_remote_engine(pair.far->desc()).ok());
  pair.near->progress();
  ASSERT_TRUE(pair.near_knows_far());
  ASSERT_TRUE(pair.far->register_remote_engine(pair.near->desc()).ok());
  pair.settle();
  EXPECT_FALSE(pair.near_knows_far());
}

TEST(LateHello, R09_of_an_earlier_instance_does_not_replace_the_new_one) {
  PairByHand pair;
  ASSERT_TRUE(pair.near->register_remote_engine(pair.far->desc()).ok());
  const auto replacement = PairByHand::make("far");
  ASSERT_TRUE(pair.near->register_remote_engine(replacement->desc()).ok());
  ASSERT_TRUE(pair.far->register_remote_engine(pair.near->desc()).ok());
  pair.settle();
  const auto mine = EnginePair::memory_of(*pair.near, 4096, Access::local_only);
  const auto theirs = EnginePair::memory_of(*replacement, 4096, Access::remote_read);
  const Transfer transfer = pair.near->read(mine->desc(), 0, theirs->desc(), 0, 10);
  ASSERT_TRUE(eventually([&] {
    pair.near->progress();
    replacement->progress();
    return transfer->state() != TransferState::pending;
  }));
  EXPECT_EQ(transfer->state(), TransferState::done) << transfer->message();
}

TEST(EarlierInstancesTest, one_of_a_key_counts_and_the_others_are_over) {
  EarlierInstances earlier;
  EXPECT_FALSE(earlier.is_over("a", 1));
  earlier.set_current("a", 1);
  earlier.set_current("b", 1);
  earlier.set_current("a", 2);
  EXPECT_TRUE(earlier.is_over("a", 1));
  EXPECT_FALSE(earlier.is_over("a", 2));
  EXPECT_FALSE(earlier.is_over("b", 1));
  earlier.end("a", 2);
  EXPECT_TRUE(earlier.is_over("a", 2));
  earlier.set_current("a", 1);  // registered again by hand
  EXPECT_FALSE(earlier.is_over("a", 1));
  for (std::uint64_t other = 0; other < EarlierInstances::kRemembered; ++other)
    earlier.set_current("c", other);
  EXPECT_FALSE(earlier.is_over("a", 2));  // so long ago that it is forgotten
}

}  // namespace
}  // namespace stagewire::engine
