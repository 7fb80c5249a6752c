// docs/config.md holds what deploy_reference() says.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "stagewire/deploy.hpp"

namespace stagewire {
namespace {

TEST(Reference, page_and_table_agree) {
  std::ifstream file(STAGEWIRE_SOURCE_DIR "/docs/config.md");
  std::stringstream page;
  page << file.rdbuf();
  const std::string text = page.str();
  const std::string begin = "<!-- reference: begin, written by `stagewire check --reference` -->\n\n";
  const std::string end = "\n<!-- reference: end -->";
  const std::size_t from = text.find(begin);
  const std::size_t to = text.find(end);
  ASSERT_NE(from, std::string::npos) << "docs/config.md has lost its mark: " << begin;
  ASSERT_NE(to, std::string::npos) << "docs/config.md has lost its mark: " << end;
  const std::size_t start = from + begin.size();
  EXPECT_TRUE(text.substr(start, to - start) == deploy_reference())
      << "docs/config.md is behind the table of keys: put the output of `build/dev/stagewire check "
         "--reference` "
         "between its marks";
}

}  // namespace
}  // namespace stagewire
