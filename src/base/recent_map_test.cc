#include "base/recent_map.hpp"

#include <gtest/gtest.h>

namespace stagewire::base {
namespace {

TEST(RecentMap, remembers_what_was_added_last) {
  RecentMap<int, 2> map;
  EXPECT_EQ(map.find("a"), nullptr);
  map.add("a", 1);
  map.add("b", 2);
  map.add("a", 3);  // keeps its place
  map.add("c", 4);
  EXPECT_EQ(map.find("a"), nullptr);
  ASSERT_NE(map.find("b"), nullptr);
  EXPECT_EQ(*map.find("b"), 2);
  EXPECT_EQ(map.take("c"), 4);
  EXPECT_EQ(map.take("c"), std::nullopt);
  map.add("d", 5);
  EXPECT_EQ(*map.find("b"), 2) << "what was taken has left room";
  *map.find("d") = 6;
  EXPECT_EQ(map.take("d"), 6);
}

}  // namespace
}  // namespace stagewire::base
