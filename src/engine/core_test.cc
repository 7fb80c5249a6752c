// The engine room by itself, driven by hand, with a clock that the test moves.
#include "engine/core.hpp"

#include "engine/engine_fixture.hpp"
#include "support/use_up_threads.hpp"

namespace stagewire::engine {
namespace {

using namespace testing_support;

struct CoreTest : ::testing::Test {
  CoreTest() {
    IOEngineConfig config = config_of("core", "shm");
    config.progress_thread = false;
    auto made = Core::create({.engine = config, .clock = &clock});
    EXPECT_TRUE(made.ok()) << made.error().to_string();
    core = std::move(*made);
    EXPECT_TRUE(core->start().ok());
  }
  base::Deadline in(ms time) const { return base::Deadline::after(time, clock); }
  void pass(ms time) {
    clock.advance(time);
    core->progress(base::Duration::zero());
  }

  base::ManualClock clock;
  std::shared_ptr<Core> core;
  std::vector<int> fired;
};

TEST_F(CoreTest, R05_timers_fire_once_at_their_time_and_in_order) {
  core->add_timer(in(ms(300)), [&] { fired.push_back(3); });
  core->add_timer(in(ms(100)), [&] { fired.push_back(1); });
  core->add_timer(in(ms(200)), [&] { fired.push_back(2); });
  core->add_timer(in(ms(200)), [&] { fired.push_back(22); });
  core->add_timer(base::Deadline::never(), [&] { fired.push_back(9); });
  pass(ms(99));
  EXPECT_TRUE(fired.empty());
  pass(ms(1));
  EXPECT_EQ(fired, (std::vector<int>{1}));
  pass(ms(10'000));
  EXPECT_EQ(fired, (std::vector<int>{1, 2, 22, 3}));
  pass(ms(10'000));
  EXPECT_EQ(fired.size(), 4U);
}

TEST_F(CoreTest, R05_a_cancelled_timer_does_not_fire) {
  const Core::TimerId kept = core->add_timer(in(ms(10)), [&] { fired.push_back(1); });
  const Core::TimerId cancelled = core->add_timer(in(ms(10)), [&] { fired.push_back(2); });
  EXPECT_TRUE(core->cancel_timer(cancelled));
  EXPECT_FALSE(core->cancel_timer(cancelled));
  pass(ms(10));
  EXPECT_EQ(fired, (std::vector<int>{1}));
  EXPECT_FALSE(core->cancel_timer(kept));
}

TEST_F(CoreTest, R05_a_timer_may_set_and_cancel_timers) {
  const Core::TimerId other = core->add_timer(in(ms(50)), [&] { fired.push_back(9); });
  core->add_timer(in(ms(10)), [&] {
    fired.push_back(1);
    EXPECT_TRUE(core->cancel_timer(other));
    core->add_timer(in(ms(10)), [&] { fired.push_back(2); });
  });
  pass(ms(10));
  EXPECT_EQ(fired, (std::vector<int>{1}));
  pass(ms(10));
  pass(ms(1000));
  EXPECT_EQ(fired, (std::vector<int>{1, 2}));
}

TEST_F(CoreTest, work_for_the_loop_runs_in_order_and_may_add_more) {
  core->run_on_loop([&] {
    fired.push_back(1);
    core->run_on_loop([&] { fired.push_back(3); });
  });
  core->run_on_loop([&] { fired.push_back(2); });
  while (core->progress(base::Duration::zero()) > 0) {
  }
  EXPECT_EQ(fired, (std::vector<int>{1, 2, 3}));
}

TEST_F(CoreTest, R05_a_transfers_timeout_is_by_the_engines_clock) {
  IOEngineConfig config = config_of("far", "shm");
  config.progress_thread = false;
  const auto far = make_engine(config);
  const auto theirs = EnginePair::memory_of(*far, 4096, Access::remote_read);
  std::vector<std::byte> bytes(4096);
  MemoryRegion region;
  region.data = bytes.data();
  region.size = bytes.size();
  const auto local = core->register_region(region, Access::local_only);
  ASSERT_TRUE(local.ok());
  const PeerPtr peer = core->add_peer(far->desc());
  auto remote = core->import_region(*peer, theirs->desc());
  ASSERT_TRUE(remote.ok()) << remote.error().to_string();
  TransferImpl::Request request;
  request.local = *local;
  request.peer = peer;
  request.remote = *remote;
  request.segments.push_back({0, 0, 4096});
  request.options.id = 1;
  request.options.timeout = ms(5000);
  request.what = "the read";
  const auto transfer = std::make_shared<TransferImpl>(core, std::move(request));
  int quiet = 0;
  transfer->on_quiet([&] { ++quiet; });
  core->submit(transfer, false);
  pass(ms(4999));
  EXPECT_EQ(transfer->state(), TransferState::pending);
  pass(ms(1));
  ASSERT_EQ(transfer->state(), TransferState::failed);
  EXPECT_EQ(transfer->error()->code(), ErrorCode::timeout);
  EXPECT_EQ(quiet, 1) << "it was never posted, so no byte moves";
  EXPECT_TRUE(core->deregister_region((*local)->desc.id, base::Deadline::after(ms(0))).ok());
  transfer->on_quiet([&] { ++quiet; });
  EXPECT_EQ(quiet, 2);
  core->close();
}

TEST_F(CoreTest, two_imports_of_a_region_are_one) {
  const auto far = make_engine(config_of("far", "shm"));
  const auto theirs = EnginePair::memory_of(*far, 4096, Access::remote_read);
  const PeerPtr peer = core->add_peer(far->desc());
  const auto once = core->import_region(*peer, theirs->desc());
  const auto twice = core->import_region(*peer, theirs->desc());
  ASSERT_TRUE(once.ok() && twice.ok());
  EXPECT_EQ(*once, *twice);
  core->drop_peer(peer, Error(ErrorCode::unavailable, "gone"));
  EXPECT_EQ(core->import_region(*peer, theirs->desc()).error().code(), ErrorCode::unavailable);
  EXPECT_EQ(core->find_peer("far"), nullptr);
}

[[noreturn]] void start_without_a_thread() {
  auto core = Core::create({.engine = config_of("core", "shm")});
  test::use_up_threads();
  const Status started = (*core)->start();
  (*core)->close();
  test::exit_with(started);
}

TEST(CoreStart, R24_without_a_thread_it_is_exhausted_and_can_be_closed) {
  if (!test::kCanUseUpThreads) GTEST_SKIP() << "a sanitizer needs the address space itself";
  EXPECT_EXIT(start_without_a_thread(), ::testing::ExitedWithCode(3),
              "exhausted: cannot start the progress thread of engine core: .*ulimit -u");
}

}  // namespace
}  // namespace stagewire::engine
