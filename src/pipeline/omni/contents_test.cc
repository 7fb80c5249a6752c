#include "pipeline/omni/contents.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace stagewire::pipeline::omni {
namespace {

std::vector<std::int64_t> frame(const Contents& contents, std::uint64_t request, std::int64_t number) {
  std::vector<std::int64_t> codes(static_cast<std::size_t>(contents.model().codec.codebook_count));
  contents.fill_frame(request, number, codes);
  return codes;
}

TEST(Contents, are_the_same_for_the_same_numbers_and_differ_with_each_of_them) {
  const Contents contents(qwen3_omni_moe(), 7);
  const auto row = contents.rows(RowKind::embedding, 3, 5, 1);
  EXPECT_EQ(row.size(), 4096U);
  EXPECT_EQ(row, Contents(qwen3_omni_moe(), 7).rows(RowKind::embedding, 3, 5, 1));
  EXPECT_NE(row, Contents(qwen3_omni_moe(), 8).rows(RowKind::embedding, 3, 5, 1));
  EXPECT_NE(row, contents.rows(RowKind::hidden, 3, 5, 1));
  EXPECT_NE(row, contents.rows(RowKind::embedding, 4, 5, 1));
  EXPECT_NE(row, contents.rows(RowKind::embedding, 3, 6, 1));
  EXPECT_EQ(frame(contents, 1, 2), frame(contents, 1, 2));
  EXPECT_NE(frame(contents, 1, 2), frame(contents, 1, 3));
  EXPECT_NE(frame(contents, 1, 2), frame(contents, 2, 2));
  EXPECT_NE(contents.prompt_id(1, 2), contents.prompt_id(1, 3));
  EXPECT_NE(contents.prompt_id(1, 2), contents.output_id(1, 2));
}

TEST(Contents, rows_at_once_are_the_rows_one_by_one) {
  const Contents contents(qwen2_5_omni(), 1);
  const auto both = contents.rows(RowKind::embedding, 0, 10, 2);
  auto one_by_one = contents.rows(RowKind::embedding, 0, 10, 1);
  const auto second = contents.rows(RowKind::embedding, 0, 11, 1);
  one_by_one.insert(one_by_one.end(), second.begin(), second.end());
  EXPECT_EQ(both, one_by_one);
  EXPECT_EQ(both.size(), 2U * 7168U);
}

TEST(Contents, every_frame_is_audio) {
  for (const Model* model : all_models()) {
    SCOPED_TRACE(model->pipeline);
    const Contents contents(*model, 42);
    std::set<std::int64_t> seen;
    for (std::int64_t number = 0; number < 2000; ++number) {
      const auto codes = frame(contents, 0, number);
      EXPECT_TRUE(chunk::is_audio(codes, model->codec));
      for (const std::int64_t code : codes) {
        ASSERT_GE(code, 0);
        ASSERT_LT(code, model->codec.code_count);
        seen.insert(code);
      }
    }
    EXPECT_GT(seen.size(), 1500U) << "codes of all kinds are wanted";
  }
}

}  // namespace
}  // namespace stagewire::pipeline::omni
