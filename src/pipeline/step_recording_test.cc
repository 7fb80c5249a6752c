#include "pipeline/step_recording.hpp"

#include <gtest/gtest.h>

#include "support/temp_dir.hpp"
#include "support/wav_bytes.hpp"

namespace stagewire::pipeline {
namespace {

/// "id stage t_ms count last"
std::string plain_line(const TraceStep& step) {
  return std::string(step.request) + " " + std::to_string(step.stage) + " " + std::to_string(step.t_ms) +
         " " + std::to_string(step.count) + (step.last ? " last\n" : "\n");
}

class StepRecordingTest : public ::testing::Test {
 protected:
  StepRecordingTest() {
    definition_.trace_line = plain_line;
    plan_.requests = {{"a", 1, 0}, {"b", 1, 0}};
  }

  std::string written(StepRecording& recording, const std::vector<RequestOutcome>& outcomes) {
    auto file = OutputFile::create(dir_.file("trace"));
    EXPECT_TRUE(file.ok());
    EXPECT_TRUE(recording.write(definition_, plan_, outcomes, 1'000, *file).ok());
    EXPECT_TRUE(file->present().ok());
    return test::read_file(dir_.file("trace"));
  }

  test::TempDir dir_;
  PipelineDefinition definition_;
  RequestPlan plan_;
};

TEST_F(StepRecordingTest, what_all_stages_made_comes_in_the_order_of_time) {
  StepRecording recording(2);
  ASSERT_TRUE(recording.note(1, {{{0, 3'000, 1, false}, {0, 5'000, 1, true}}}).ok());
  ASSERT_TRUE(recording.note(0, {{{0, 1'500, 7, false}, {0, 3'000, 1, true}}}).ok());
  ASSERT_TRUE(recording.note(0, {{{1, 4'000, 8, true}}}).ok());
  EXPECT_EQ(written(recording, std::vector<RequestOutcome>(2)),
            "a 0 0.500000 7\n"
            "a 0 2.000000 1 last\n"
            "a 1 2.000000 1\n"
            "b 0 3.000000 8 last\n"
            "a 1 4.000000 1 last\n");
}

TEST_F(StepRecordingTest, a_request_that_failed_is_left_out) {
  StepRecording recording(2);
  ASSERT_TRUE(recording.note(0, {{{0, 2'000, 7, false}, {1, 3'000, 8, true}}}).ok());
  std::vector<RequestOutcome> outcomes(2);
  outcomes[0].failure = Failed{ErrorCode::corrupt, "row 7 differs"};
  EXPECT_EQ(written(recording, outcomes), "b 0 2.000000 8 last\n");
}

TEST_F(StepRecordingTest, long_ones_are_written_whole) {
  StepRecording recording(2);
  constexpr std::int64_t kSteps = 10'000;
  std::string wanted;
  for (std::int64_t i = 0; i < kSteps; ++i) {
    ASSERT_TRUE(recording.note(0, {{{0, 1'000 * (i + 1), i, false}}}).ok());
    wanted += plain_line({"a", 0, static_cast<double>(i), i, false});
  }
  EXPECT_EQ(written(recording, std::vector<RequestOutcome>(2)), wanted);
}

TEST_F(StepRecordingTest, a_step_of_no_request_is_corrupt) {
  StepRecording recording(2);
  EXPECT_EQ(recording.note(0, {{{2, 1, 1, false}}}).error().code(), ErrorCode::corrupt);
}

}  // namespace
}  // namespace stagewire::pipeline
