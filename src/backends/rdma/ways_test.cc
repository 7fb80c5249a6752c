#include "backends/rdma/ways.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stagewire::backends::rdma {

void PrintTo(const Way& way, std::ostream* out) {
  *out << way.port << "->" << way.rail;
}

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const base::TimePoint kNow{std::chrono::hours(1)};
const auto kAllUp = [](std::size_t) { return true; };

TEST(Ways, ports_of_the_same_place_belong_together) {
  Ways ways({true, true, true}, {true, true, true});
  EXPECT_EQ(ways.count(), 9U);
  const auto one = ways.choose(1, kNow, kAllUp);
  EXPECT_EQ(one.frames, (Way{0, 0}));
  EXPECT_THAT(one.data, ElementsAre(Way{0, 0}));
  EXPECT_THAT(one.missing, IsEmpty());
  EXPECT_THAT(ways.choose(8, kNow, kAllUp).data, ElementsAre(Way{0, 0}, Way{1, 1}, Way{2, 2}));
  EXPECT_THAT(Ways({true, true}, {true}).choose(8, kNow, kAllUp).data, ElementsAre(Way{0, 0}));
  EXPECT_THAT(Ways({true}, {true, true}).choose(8, kNow, kAllUp).data, ElementsAre(Way{0, 0}));
}

TEST(Ways, kinds_do_not_mix_while_there_is_another_way) {
  Ways ways({true, false}, {false, true});
  EXPECT_THAT(ways.choose(2, kNow, kAllUp).data, ElementsAre(Way{0, 1}, Way{1, 0}));
  EXPECT_EQ(ways.count(), 2U);
  EXPECT_EQ(Ways({true}, {false}).count(), 1U);
}

TEST(Ways, R05_what_is_dead_is_left_out_for_a_while_and_named) {
  Ways ways({true, true}, {true, true});
  ways.note_dead({0, 0}, kNow);
  const auto choice = ways.choose(2, kNow, kAllUp);
  EXPECT_EQ(choice.frames, (Way{1, 1}));
  EXPECT_THAT(choice.data, ElementsAre(Way{1, 1}));
  EXPECT_THAT(choice.missing, ElementsAre(Way{0, 0}));
  const auto later = ways.choose(2, kNow + std::chrono::minutes(1), kAllUp);
  EXPECT_EQ(later.frames, (Way{0, 0}));
  EXPECT_THAT(later.missing, IsEmpty());
  ways.note_dead({0, 0}, kNow);
  ways.forgive();
  EXPECT_EQ(ways.choose(2, kNow, kAllUp).frames, (Way{0, 0}));
}

TEST(Ways, R05_a_port_that_is_down_is_not_tried_and_the_crossed_ways_come_last) {
  Ways ways({true, true}, {true, true});
  const auto second_only = [](std::size_t port) { return port == 1; };
  EXPECT_EQ(ways.choose(1, kNow, second_only).frames, (Way{1, 1}));
  ways.note_dead({1, 1}, kNow);
  EXPECT_EQ(ways.choose(1, kNow, second_only).frames, (Way{1, 0}));
}

TEST(Ways, R05_when_all_are_dead_all_are_tried) {
  Ways ways({true}, {true});
  ways.note_dead({0, 0}, kNow);
  EXPECT_EQ(ways.choose(1, kNow, kAllUp).frames, (Way{0, 0}));
  EXPECT_EQ(ways.choose(1, kNow, [](std::size_t) { return false; }).frames, (Way{0, 0}));
}

}  // namespace
}  // namespace stagewire::backends::rdma
