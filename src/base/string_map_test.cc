#include "base/string_map.hpp"

#include <gtest/gtest.h>

namespace stagewire::base {
namespace {

TEST(ReusingStringMap, entries_are_found_until_they_are_erased) {
  ReusingStringMap<int> map;
  map.at("a")->second = 1;
  map.at("b")->second = 2;
  EXPECT_EQ(map.size(), 2U);
  EXPECT_EQ(map.at("a")->second, 1);
  EXPECT_TRUE(map.contains("b"));
  EXPECT_EQ(map.erase("a"), 1U);
  EXPECT_EQ(map.erase("a"), 0U);
  EXPECT_EQ(map.find("a"), map.end());
  EXPECT_EQ(map.find("b")->second, 2);
}

TEST(ReusingStringMap, a_new_entry_is_empty_and_takes_the_memory_of_one_that_was_erased) {
  ReusingStringMap<std::vector<int>> map;
  map.at("a key that is too long for a string without memory")->second = {1, 2, 3};
  const auto* const place = &map.begin()->second;
  map.erase(map.begin());
  const auto added = map.at("another key that is as long as the one before was");
  EXPECT_EQ(&added->second, place);
  EXPECT_TRUE(added->second.empty());
  EXPECT_GE(added->second.capacity(), 3U);
}

TEST(ReusingStringMap, erasing_all_while_walking_meets_each_once) {
  ReusingStringMap<std::string> map;
  for (int i = 0; i < 10'000; ++i) map.at(std::to_string(i))->second = "value";
  int met = 0;
  for (auto entry = map.begin(); entry != map.end(); entry = map.erase(entry)) ++met;
  EXPECT_EQ(met, 10'000);
  EXPECT_TRUE(map.empty());
  EXPECT_EQ(map.at("7")->second, "");
}

}  // namespace
}  // namespace stagewire::base
