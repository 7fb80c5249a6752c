#include "pipeline/outcome.hpp"

#include <gtest/gtest.h>

namespace stagewire::pipeline {
namespace {

StageOutcome quiet(int stage_id) {
  StageOutcome outcome;
  outcome.stage_id = stage_id;
  outcome.name = "name";
  outcome.pid = 100 + stage_id;
  return outcome;
}

StageOutcome died(int stage_id, std::uint64_t order, ExitStatus status) {
  StageOutcome outcome = quiet(stage_id);
  outcome.order = order;
  outcome.exit = status;
  return outcome;
}

StageOutcome failed(int stage_id, std::uint64_t order, ErrorCode code, const std::string& message) {
  StageOutcome outcome = died(stage_id, order, {false, 1});
  outcome.failed = Failed{code, message};
  return outcome;
}

TEST(RootCause, R25_a_death_counts_more_than_the_complaints_that_were_heard_sooner) {
  StageOutcome dead = died(1, 3, {true, 9});
  dead.last_words = "going down";
  const Error error = root_cause(std::vector{failed(0, 1, ErrorCode::unavailable, "the receiver is gone"),
                                             dead, failed(2, 2, ErrorCode::failed, "odd")});
  EXPECT_EQ(error.message(),
            "stage 1 (name, pid 101) was killed by signal 9 (Killed); its last words: going down");
}

TEST(RootCause, R25_what_a_stage_failed_of_counts_more_than_its_consequences) {
  const Error error = root_cause(std::vector{failed(0, 3, ErrorCode::closed, "closed"),
                                             failed(1, 2, ErrorCode::conflict, "port 1 is taken"),
                                             failed(2, 1, ErrorCode::unavailable, "the sender is gone")});
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_EQ(error.message(), "stage 1 (name, pid 101): port 1 is taken");
}

TEST(RootCause, among_equals_the_earliest) {
  const Error error = root_cause(std::vector{failed(0, 2, ErrorCode::timeout, "second"), quiet(1),
                                             failed(2, 1, ErrorCode::timeout, "first")});
  EXPECT_EQ(error.message(), "stage 2 (name, pid 102): first");
}

TEST(RootCause, an_end_without_a_result_is_a_failure_whatever_its_status) {
  const Error error = root_cause(std::vector{died(0, 1, {false, 0}), quiet(1)});
  EXPECT_EQ(error.message(), "stage 0 (name, pid 100) ended with exit status 0; it said nothing");
}

}  // namespace
}  // namespace stagewire::pipeline
