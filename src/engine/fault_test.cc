// The engine over a backend that breaks its contract: completions that are late, lost or failures.
#include <map>

#include "engine/engine_fixture.hpp"
#include "support/test_seed.hpp"

namespace stagewire::engine {
namespace {

using namespace testing_support;

std::unique_ptr<IOEngine> faulty_engine(const std::string& spec) {
  IOEngineConfig config = config_of("near", "fault");
  config.fault_spec = spec;
  return make_engine(config);
}

std::unique_ptr<IOEngine> sound_engine() {
  IOEngineConfig config = config_of("far", "fault");
  config.fault_spec = "over=shm";
  return make_engine(config);
}

TEST(Faults, R05_every_transfer_ends_exactly_once_whatever_becomes_of_its_completion) {
  constexpr std::size_t kSlot = 50'000;
  constexpr std::size_t kSlots = 200;
  const std::uint64_t seed = test::test_seed();
  const auto near = faulty_engine("over=shm,delay_ms=1,drop=0.1,reorder=0.1,fail=0.2,seed=" +
                                  std::to_string(seed % 1'000'000));
  const auto far = sound_engine();
  ASSERT_TRUE(near->register_remote_engine(far->desc()).ok());
  const auto source = EnginePair::memory_of(*far, kSlot * kSlots, Access::remote_read);
  auto target = EnginePair::memory_of(*near, kSlot * kSlots, Access::local_only);
  fill(source->bytes(), 1);
  EndCounter counter;
  std::vector<Transfer> transfers;
  for (std::size_t slot = 0; slot < kSlots; ++slot) {
    transfers.push_back(near->read(target->desc(), slot * kSlot, source->desc(), slot * kSlot, kSlot - 100,
                                   {.timeout = ms(2000)}));
    counter.watch(transfers.back());
  }
  std::map<std::optional<ErrorCode>, int> outcomes;
  for (std::size_t slot = 0; slot < kSlots; ++slot) {
    const auto code = code_of(transfers[slot]);
    ++outcomes[code];
    const auto bytes = target->bytes().subspan(slot * kSlot, kSlot);
    EXPECT_TRUE(all_are(bytes.last(100), std::byte{0}));
    if (code) continue;
    EXPECT_EQ(std::memcmp(bytes.data(), source->bytes().data() + slot * kSlot, kSlot - 100), 0);
  }
  EXPECT_EQ(counter.await(static_cast<int>(kSlots)), static_cast<int>(kSlots));
  EXPECT_EQ(counter.done, outcomes[std::nullopt]);
  EXPECT_GT(outcomes[std::nullopt], 0);
  EXPECT_GT(outcomes[ErrorCode::failed], 0);
  EXPECT_EQ(outcomes[std::nullopt] + outcomes[ErrorCode::failed] + outcomes[ErrorCode::timeout],
            static_cast<int>(kSlots));
  near->close();
  EXPECT_EQ(counter.await(static_cast<int>(kSlots)), static_cast<int>(kSlots))
      << "late completions are ignored";
  target.reset();  // nothing waits for the completions that were lost
}

// Nobody can know whether the bytes of a lost completion still move: the region stays until the engine is
// closed, and no longer.
TEST(Faults, R01_R05_a_lost_completion_keeps_its_region_but_not_for_ever) {
  const auto near = faulty_engine("over=shm,drop=1");
  const auto far = sound_engine();
  ASSERT_TRUE(near->register_remote_engine(far->desc()).ok());
  const auto source = EnginePair::memory_of(*far, 1 << 20, Access::remote_read);
  auto target = EnginePair::memory_of(*near, 1 << 20, Access::local_only);
  const Transfer lost = near->read(target->desc(), 0, source->desc(), 0, 1 << 20, {.timeout = ms(300)});
  EXPECT_EQ(code_of(lost), ErrorCode::timeout);
  EXPECT_EQ(code_of(near->deregister_memory(target->desc(), ms(20))), ErrorCode::timeout);
  near->close();
  EXPECT_TRUE(near->deregister_memory(target->desc(), ms(20)).ok());
  target.reset();
}

}  // namespace
}  // namespace stagewire::engine
