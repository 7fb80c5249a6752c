#include "pipeline/omni/schedule.hpp"

#include <gtest/gtest.h>

namespace stagewire::pipeline::omni {
namespace {

TEST(Schedule, rates_are_the_published_ones_where_there_are_any) {
  const Model& model = qwen3_omni_moe();
  for (const auto& [concurrency, token_ms, factor, first_packet_ms] :
       {std::tuple(1U, 8.7, 0.22, 523.0), std::tuple(4U, 10.2, 0.29, 786.0),
        std::tuple(10U, 17.6, 0.41, 1629.0)}) {
    SCOPED_TRACE(concurrency);
    const Rates rates = rates_at(model, concurrency);
    EXPECT_NEAR(rates.token_ms, token_ms, 1e-9);
    EXPECT_NEAR(rates.frame_ms, factor * 80, 1e-9);
    // The first packet: the prompt, a token, and 25 frames.
    EXPECT_NEAR(rates.prefill_ms + rates.token_ms + 25 * rates.frame_ms, first_packet_ms, 1e-6);
  }
  EXPECT_GT(rates_at(model, 7).token_ms, 10.2);
  EXPECT_LT(rates_at(model, 7).token_ms, 17.6);
  EXPECT_GT(rates_at(model, 64).token_ms, 17.6);
  EXPECT_NEAR(rates_at(qwen2_5_omni(), 1).frame_ms, 0.22 * 20, 1e-9) << "audio is made as fast, at 50 Hz";
}

TEST(Schedule, a_request_has_its_prompt_a_row_for_each_token_and_the_frames_of_its_audio) {
  const RequestSchedule schedule = computed_schedule(qwen3_omni_moe(), {100, 100, 1, true});
  EXPECT_EQ(schedule.row_count(), 200);
  EXPECT_EQ(schedule.thinker.size(), 101U);
  EXPECT_EQ(schedule.thinker.front().count, 100);
  EXPECT_TRUE(schedule.thinker.back().last);
  EXPECT_EQ(schedule.frame_count(), 369) << "29.5 s at 12.5 Hz";
  EXPECT_TRUE(schedule.talker.back().last);
  EXPECT_EQ(computed_schedule(qwen2_5_omni(), {100, 100, 1, true}).frame_count(), 1475) << "at 50 Hz";
  EXPECT_EQ(computed_schedule(qwen3_omni_moe(), {1, 1, 1, true}).frame_count(), 4);
}

TEST(Schedule, a_talker_says_a_token_a_step_and_never_one_that_has_not_come) {
  const RequestSchedule schedule = computed_schedule(qwen3_omni_moe(), {100, 10, 1, true});
  EXPECT_EQ(schedule.talker[0].needs, 1);
  EXPECT_EQ(schedule.talker[8].needs, 9);
  EXPECT_EQ(schedule.talker.back().needs, 10);
  for (const auto* steps : {&schedule.thinker, &schedule.talker}) {
    for (std::size_t i = 1; i < steps->size(); ++i) {
      EXPECT_GE((*steps)[i].at_ms, (*steps)[i - 1].at_ms);
      EXPECT_FALSE((*steps)[i - 1].last);
    }
  }
  EXPECT_GT(schedule.talker[0].at_ms, schedule.thinker[1].at_ms);
}

TEST(Schedule, without_chunks_the_talker_begins_when_the_thinker_has_ended) {
  const RequestSchedule schedule = computed_schedule(qwen3_omni_moe(), {100, 100, 1, false});
  EXPECT_GT(schedule.talker.front().at_ms, schedule.thinker.back().at_ms);
}

}  // namespace
}  // namespace stagewire::pipeline::omni
