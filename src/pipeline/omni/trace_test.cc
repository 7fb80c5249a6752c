#include "pipeline/omni/trace.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stagewire::pipeline::omni {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kGood = R"({"t_ms": 10, "request": "a", "stage": "thinker", "rows": 100})"
                          "\n"
                          R"({"t_ms": 12, "request": "b", "stage": "thinker", "rows": 7})"
                          "\n\n"
                          R"({"t_ms": 20.5, "request": "a", "stage": "thinker", "rows": 2, "finished": true})"
                          "\r\n"
                          R"({"t_ms": 21, "request": "b", "stage": "thinker", "rows": 1, "finished": true})"
                          "\n"
                          R"({"t_ms": 30, "request": "a", "stage": "talker", "frames": 3})"
                          "\n"
                          R"({"t_ms": 31, "request": "b", "stage": "talker", "frames": 1, "finished": true})"
                          "\n"
                          R"({"t_ms": 31, "request": "a", "stage": "talker", "frames": 0, "finished": true})";

TEST(Trace, is_read_request_by_request) {
  const auto trace = parse_trace(kGood, "run.jsonl");
  ASSERT_TRUE(trace.ok()) << trace.error().to_string();
  ASSERT_EQ(trace->size(), 2U);
  const RequestSchedule& a = (*trace)[0];
  EXPECT_EQ(a.external_id, "a");
  EXPECT_EQ(a.start_ms, 10);
  EXPECT_EQ(a.prompt_tokens, 100);
  EXPECT_EQ(a.row_count(), 102);
  EXPECT_EQ(a.frame_count(), 3);
  ASSERT_EQ(a.thinker.size(), 2U);
  EXPECT_EQ(a.thinker[1].at_ms, 20.5);
  EXPECT_TRUE(a.thinker[1].last);
  ASSERT_EQ(a.talker.size(), 2U);
  EXPECT_EQ(a.talker[0].needs, 1);
  EXPECT_EQ((*trace)[1].external_id, "b");
}

struct BadLine {
  const char* line;
  const char* complaint;
};

class TraceErrors : public ::testing::TestWithParam<BadLine> {};

TEST_P(TraceErrors, name_file_line_and_what_is_wrong) {
  const std::string text = kGood + "\n" + GetParam().line + "\n";
  const auto trace = parse_trace(text, "run.jsonl");
  ASSERT_FALSE(trace.ok()) << GetParam().line;
  EXPECT_EQ(trace.error().code(), ErrorCode::invalid_argument);
  EXPECT_THAT(trace.error().message(), StartsWith("run.jsonl:9: "));
  EXPECT_THAT(trace.error().message(), HasSubstr(GetParam().complaint));
}

INSTANTIATE_TEST_SUITE_P(
    All, TraceErrors,
    ::testing::Values(
        BadLine{"{", "parse error"}, BadLine{"[1]", "a JSON object is wanted"},
        BadLine{R"({"request": "c", "stage": "thinker", "rows": 1})", "\"t_ms\" is missing"},
        BadLine{R"({"t_ms": "1", "request": "c", "stage": "thinker", "rows": 1})", "\"t_ms\" is no number"},
        BadLine{R"({"t_ms": -1, "request": "c", "stage": "thinker", "rows": 1})", "not from 0 to 1e9"},
        BadLine{R"({"t_ms": 1e400, "request": "c", "stage": "thinker", "rows": 1})", "number overflow"},
        BadLine{R"({"t_ms": 1, "request": 3, "stage": "thinker", "rows": 1})", "\"request\" is no string"},
        BadLine{R"({"t_ms": 1, "request": "", "stage": "thinker", "rows": 1})", "1 to 200"},
        BadLine{R"({"t_ms": 1, "request": "c", "stage": "code2wav", "rows": 1})", "neither \"thinker\" nor"},
        BadLine{R"({"t_ms": 1, "request": "c", "stage": "talker", "rows": 1})", "\"frames\" is missing"},
        BadLine{R"({"t_ms": 1, "request": "c", "stage": "thinker", "rows": 1.5})", "no whole number"},
        BadLine{R"({"t_ms": 1, "request": "c", "stage": "thinker", "rows": 200000})", "from 0 to 131072"},
        BadLine{R"({"t_ms": 1, "request": "c", "stage": "thinker", "rows": -1})", "from 0 to 131072"},
        BadLine{R"({"t_ms": 1, "request": "c", "stage": "thinker", "rows": 18446744073709551615})",
                "from 0 to"},
        BadLine{R"({"t_ms": 1, "request": "c", "stage": "thinker", "rows": 0})", "makes nothing"},
        BadLine{R"({"t_ms": 1, "request": "c", "stage": "talker", "frames": 0})", "makes nothing"},
        BadLine{R"({"t_ms": 1, "request": "c", "stage": "talker", "frames": 33})", "at most 32, not 33"},
        BadLine{R"({"t_ms": 1, "request": "c", "stage": "thinker", "rows": 1, "finished": 1})",
                "neither true"},
        BadLine{R"({"t_ms": 1, "request": "c", "stage": "thinker", "rows": 1, "frames": 1})", "unknown key"},
        BadLine{R"({"t_ms": 99, "request": "a", "stage": "thinker", "rows": 1})", "has finished before"},
        BadLine{R"({"t_ms": 1, "request": "c", "stage": "thinker", "rows": 1})",
                "has no line of the thinker with"},
        BadLine{R"({"t_ms": 1, "request": "c", "stage": "thinker", "rows": 1, "finished": true})",
                "request \"c\" has no line of the talker with"}));

TEST(Trace, lines_that_are_written_can_be_read) {
  const std::string text =
      trace_line({"chat \"1\"", 0, 0.125, 100, false}) + trace_line({"chat \"1\"", 0, 8.75, 1, true}) +
      trace_line({"chat \"1\"", 1, 17.001, 3, false}) + trace_line({"chat \"1\"", 1, 1e6, 0, true});
  const auto trace = parse_trace(text, "x");
  ASSERT_TRUE(trace.ok()) << trace.error().to_string();
  ASSERT_EQ(trace->size(), 1U);
  const RequestSchedule& request = trace->front();
  EXPECT_EQ(request.external_id, "chat \"1\"");
  EXPECT_EQ(request.start_ms, 0.125);
  EXPECT_EQ(request.prompt_tokens, 100);
  EXPECT_EQ(request.thinker[1].at_ms, 8.75);
  EXPECT_EQ(request.talker[0].at_ms, 17.001);
  EXPECT_EQ(request.talker[0].count, 3);
  EXPECT_TRUE(request.talker[1].last);
  EXPECT_EQ(request.talker[1].count, 0);
}

TEST(Trace, no_line_is_longer_than_the_longest) {
  for (const double t_ms : {0.0, 1e9, 123'456'789.123, 0.001})
    EXPECT_LE(trace_line({"\n", 0, t_ms, kMaxPromptTokens, true}).size(), longest_trace_line("\n"));
}

TEST(Trace, times_of_a_stage_s_request_do_not_go_back) {
  const auto trace = parse_trace(R"({"t_ms": 10, "request": "a", "stage": "thinker", "rows": 1})"
                                 "\n"
                                 R"({"t_ms": 9, "request": "a", "stage": "thinker", "rows": 1})",
                                 "x");
  EXPECT_THAT(trace.error().message(), HasSubstr("x:2: \"t_ms\" is 9, before the last line"));
}

TEST(Trace, nothing_is_no_trace) {
  EXPECT_THAT(parse_trace("", "x").error().message(), HasSubstr("there is no line in it"));
  EXPECT_THAT(read_trace("/nowhere/x").error().message(), HasSubstr("cannot read /nowhere/x: No such file"));
}

}  // namespace
}  // namespace stagewire::pipeline::omni
