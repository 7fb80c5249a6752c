#include "base/printable.hpp"

#include <gtest/gtest.h>

namespace stagewire::base {
namespace {

TEST(Printable, control_characters_become_visible) {
  EXPECT_EQ(printable("a\x1b[31mb\r\n\tc\x7f"), "a\\x1b[31mb\\x0d\\n\\tc\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\x9b31m");
}

TEST(Printable, other_text_stays) {
  EXPECT_EQ(printable("Stra\xc3\x9f"
                      "e \xc2\xa0 \xe2\x82\xac"),
            "Stra\xc3\x9f"
            "e \xc2\xa0 \xe2\x82\xac");
  EXPECT_EQ(printable("\xff\xc2"), "\xff\xc2") << "no UTF-8";
}

}  // namespace
}  // namespace stagewire::base
