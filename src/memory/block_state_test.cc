#include "memory/block_state.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "support/test_seed.hpp"

namespace stagewire::memory {
namespace {

constexpr std::array kStates = {BlockState::free,    BlockState::staged,  BlockState::published,
                                BlockState::retired, BlockState::granted, BlockState::quarantined};
constexpr std::array kEvents = {BlockEvent::allocate,  BlockEvent::publish,    BlockEvent::pin,
                                BlockEvent::unpin,     BlockEvent::retire,     BlockEvent::grant,
                                BlockEvent::end_grant, BlockEvent::quarantine, BlockEvent::end_quarantine,
                                BlockEvent::free};

/// What a block is to the world, told without states: who knows of it. Says by its own words what each event
/// needs.
struct Model {
  bool exists = false;
  bool keyed = false;      // a reader can find it
  bool writer = false;     // a writer elsewhere may write
  bool abandoned = false;  // its holder has given it up
  std::uint32_t readers = 0;

  bool held_alone() const { return exists && !keyed && !writer && !abandoned; }
  bool gone_when_unread() const { return exists && abandoned && !writer; }

  bool apply(BlockEvent event) {
    if (!step(event)) return false;
    if (gone_when_unread() && readers == 0) *this = Model{};
    return true;
  }

  bool step(BlockEvent event) {
    const bool live_grant = writer && !abandoned;
    switch (event) {
      case BlockEvent::allocate:
        return !exists && (exists = true);
      case BlockEvent::publish:
        return held_alone() && (keyed = true);
      case BlockEvent::pin:
        return keyed && ++readers > 0;
      case BlockEvent::unpin:
        return readers > 0 && (--readers, true);
      case BlockEvent::retire:
        return keyed && (keyed = false, abandoned = true);
      case BlockEvent::grant:
        return held_alone() && (writer = true);
      case BlockEvent::end_grant:
        return live_grant && (writer = false, true);
      case BlockEvent::quarantine:
        return live_grant && (abandoned = true);
      case BlockEvent::end_quarantine:
        return writer && abandoned && (writer = false, true);
      case BlockEvent::free:
        return held_alone() && (abandoned = true);
    }
    return false;
  }

  BlockState state() const {
    if (!exists) return BlockState::free;
    if (keyed) return BlockState::published;
    if (writer) return abandoned ? BlockState::quarantined : BlockState::granted;
    return abandoned ? BlockState::retired : BlockState::staged;
  }
};

TEST(BlockState, R01_R02_random_events_agree_with_a_model) {
  std::mt19937_64 random(test::test_seed());
  BlockStatus status;
  Model model;
  std::set<std::pair<BlockState, BlockEvent>> accepted;
  std::set<std::pair<BlockState, BlockEvent>> refused;
  for (int step = 0; step < 200'000; ++step) {
    const BlockEvent event = kEvents[random() % kEvents.size()];
    const auto next = next_status(status, event);
    const auto where = std::pair(status.state, event);
    ASSERT_EQ(next.has_value(), model.apply(event)) << to_string(event) << " in " << to_string(status.state)
                                                    << " with " << status.pins << " pins, step " << step;
    (next ? accepted : refused).insert(where);
    if (!next) continue;
    status = *next;
    ASSERT_EQ(status.state, model.state()) << "after " << to_string(event) << ", step " << step;
    ASSERT_EQ(status.pins, model.readers) << "after " << to_string(event) << ", step " << step;
  }
  // The walk has been everywhere. Legal are 11 pairs of state and event; one of them, unpin of a published
  // block, is refused as well, when nobody reads it.
  EXPECT_EQ(accepted.size(), 11U);
  EXPECT_EQ(accepted.size() + refused.size(), kStates.size() * kEvents.size() + 1);
}

TEST(BlockState, the_legal_transitions_are_these_and_no_others) {
  const std::set<std::string> legal = {
      "free 0 allocate staged 0",
      "staged 0 free free 0",
      "staged 0 publish published 0",
      "staged 0 grant granted 0",
      "granted 0 end_grant staged 0",
      "granted 0 quarantine quarantined 0",
      "quarantined 0 end_quarantine free 0",
      "published 0 pin published 1",
      "published 1 pin published 2",
      "published 2 pin published 3",
      "published 1 unpin published 0",
      "published 2 unpin published 1",
      "published 0 retire free 0",
      "published 1 retire retired 1",
      "published 2 retire retired 2",
      "retired 1 unpin free 0",
      "retired 2 unpin retired 1",
  };
  std::set<std::string> found;
  for (const BlockState state : kStates) {
    const bool readable = state == BlockState::published || state == BlockState::retired;
    for (std::uint32_t pins = state == BlockState::retired ? 1 : 0; pins <= (readable ? 2U : 0U); ++pins) {
      for (const BlockEvent event : kEvents) {
        const auto next = next_status({state, pins}, event);
        if (!next) continue;
        found.insert(std::string(to_string(state)) + " " + std::to_string(pins) + " " +
                     std::string(to_string(event)) + " " + std::string(to_string(next->state)) + " " +
                     std::to_string(next->pins));
      }
    }
  }
  EXPECT_EQ(found, legal);
}

TEST(BlockState, R02_pins_do_not_wrap_around) {
  constexpr auto kMost = std::numeric_limits<std::uint32_t>::max();
  EXPECT_FALSE(next_status({BlockState::published, kMost}, BlockEvent::pin).has_value());
  ASSERT_TRUE(next_status({BlockState::published, kMost - 1}, BlockEvent::pin).has_value());
}

}  // namespace
}  // namespace stagewire::memory
