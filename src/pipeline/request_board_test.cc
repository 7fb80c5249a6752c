#include "pipeline/request_board.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stagewire::pipeline {
namespace {

RequestEnded done(std::uint64_t request, std::int64_t at_us = 0, std::int64_t first_at_us = 0) {
  return {request, true, ErrorCode::failed, "", first_at_us, at_us};
}
RequestEnded failed(std::uint64_t request, ErrorCode code, const std::string& message) {
  return {request, false, code, message, 0, 0};
}

TEST(RequestBoard, admits_as_many_as_may_run_and_the_next_when_all_stages_are_through_with_one) {
  RequestBoard board(5, 2, 3);
  const auto first = board.admit(10);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->first, 0U);
  EXPECT_EQ(first->count, 2U);
  EXPECT_FALSE(board.admit(11));
  EXPECT_FALSE(*board.note(0, done(1)));
  EXPECT_FALSE(*board.note(1, done(1)));
  EXPECT_FALSE(board.admit(12));
  EXPECT_FALSE(*board.note(2, done(1, 20, 15)));
  const auto next = board.admit(21);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->first, 2U);
  EXPECT_EQ(next->count, 1U);
  EXPECT_EQ(board.outcomes()[1].started_us, 10);
  EXPECT_EQ(board.outcomes()[1].first_packet_us, 15);
  EXPECT_EQ(board.outcomes()[1].ended_us, 20);
  EXPECT_EQ(board.outcomes()[2].started_us, 21);
}

TEST(RequestBoard, admits_no_more_than_there_are) {
  RequestBoard board(3, 64, 1);
  EXPECT_EQ(board.admit(0)->count, 3U);
  for (std::uint64_t request = 0; request < 3; ++request) EXPECT_FALSE(*board.note(0, done(request)));
  EXPECT_FALSE(board.admit(1));
}

TEST(RequestBoard, the_first_failure_is_told_on_and_what_is_not_a_consequence_is_kept) {
  RequestBoard board(1, 1, 3);
  board.admit(0);
  EXPECT_TRUE(*board.note(2, failed(0, ErrorCode::cancelled, "stage 1 gave it up")));
  EXPECT_FALSE(*board.note(1, failed(0, ErrorCode::corrupt, "row 7 differs")));
  EXPECT_FALSE(*board.note(0, failed(0, ErrorCode::too_large, "later")));
  EXPECT_EQ(board.outcomes()[0].failure->message, "row 7 differs");
  EXPECT_EQ(board.outcomes()[0].failed_stage, 1U);
}

TEST(RequestBoard, R25_the_end_of_a_peer_is_kept_before_what_others_were_told_of_it) {
  RequestBoard board(1, 1, 3);
  board.admit(0);
  EXPECT_TRUE(*board.note(2, failed(0, ErrorCode::cancelled, "stage 1 gave it up")));
  EXPECT_FALSE(*board.note(1, failed(0, ErrorCode::unavailable, "no backend reaches stage 0")));
  EXPECT_FALSE(*board.note(0, failed(0, ErrorCode::cancelled, "stage 1 gave it up, too")));
  EXPECT_EQ(board.outcomes()[0].failure->message, "no backend reaches stage 0");
  EXPECT_EQ(board.outcomes()[0].failed_stage, 1U);
}

TEST(RequestBoard, what_no_stage_can_have_said_is_corrupt) {
  RequestBoard board(2, 1, 2);
  board.admit(0);
  EXPECT_EQ(board.note(0, done(1)).error().code(), ErrorCode::corrupt) << "not admitted";
  EXPECT_EQ(board.note(0, done(7)).error().code(), ErrorCode::corrupt) << "there is no such request";
  EXPECT_FALSE(*board.note(0, done(0)));
  EXPECT_EQ(board.note(0, done(0)).error().code(), ErrorCode::corrupt) << "said twice";
}

}  // namespace
}  // namespace stagewire::pipeline
