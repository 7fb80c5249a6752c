// What a stage makes, through the processor, encoded and decoded, at the far end: accepted whole, refused
// when anything differs.
#include "pipeline/omni/far_end.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "pipeline/omni/stage_role.hpp"

namespace stagewire::pipeline::omni {
namespace {

using ::testing::HasSubstr;

struct Case {
  const Model* model;
  bool async_chunk;
};

class OmniFarEnd : public ::testing::TestWithParam<Case> {
 protected:
  static Assignment assignment() {
    Assignment assignment;
    assignment.async_chunk = GetParam().async_chunk;
    assignment.replay.prompt_tokens = 30;
    assignment.replay.output_tokens = 40;
    assignment.replay.seed = 5;
    return assignment;
  }
  static Stage stage(StageRole role) {
    auto made = Stage::create(*GetParam().model, role, assignment());
    EXPECT_TRUE(made.ok()) << made.error().to_string();
    return std::move(*made);
  }

  /// The encoded chunks of request 3, each with its flag.
  static std::vector<std::vector<std::byte>> chunks(StageRole role) {
    const Stage sender = stage(role);
    auto processor = sender.make_processor();
    EXPECT_TRUE(processor.ok()) << processor.error().to_string();
    StageRequest request = sender.begin(3);
    std::vector<std::vector<std::byte>> all;
    while (!request.has_made_all()) {
      const StepOutput output = sender.make_step(request);
      const bool last = request.has_made_all();
      const ChunkRequest about{
          request.internal_id, request.external_id, request.prompt_ids, request.output_ids, false, "", ""};
      auto payload = (*processor)->process(about, output.value, last);
      EXPECT_TRUE(payload.ok()) << payload.error().to_string();
      if (!payload.ok() || (*payload == nullptr && !last)) continue;
      Value chunk = *payload != nullptr ? **payload : Value(Value::Map{{"meta", Value::Map{}}});
      chunk.find("meta")->get_if<Value::Map>()->emplace_back("finished", last);
      std::vector<std::byte> bytes(encoded_size(chunk).value());
      EXPECT_TRUE(encode(chunk, bytes).ok());
      all.push_back(std::move(bytes));
    }
    return all;
  }

  /// The first error, or the state after the last chunk.
  static Status take(StageRole sender, const std::vector<std::vector<std::byte>>& all) {
    const Stage receiver = stage(sender == StageRole::thinker ? StageRole::talker : StageRole::code2wav);
    const StageRequest request = receiver.begin(3);
    for (const auto& bytes : all) {
      const auto chunk = decode(bytes);
      if (!chunk.ok()) return chunk.error();
      if (Status status = request.far_end->take(*chunk); !status.ok()) return status;
    }
    EXPECT_TRUE(request.far_end->finished());
    return {};
  }
};

TEST_P(OmniFarEnd, accepts_what_the_sender_makes) {
  for (const StageRole sender : {StageRole::thinker, StageRole::talker}) {
    const auto all = chunks(sender);
    EXPECT_EQ(all.size() > 1, GetParam().async_chunk);
    const Status status = take(sender, all);
    EXPECT_TRUE(status.ok()) << status.error().to_string();
  }
}

TEST_P(OmniFarEnd, refuses_any_changed_byte_of_rows_codes_and_ids) {
  for (const StageRole sender : {StageRole::thinker, StageRole::talker}) {
    const auto all = chunks(sender);
    for (std::size_t i = 0; i < all.size(); ++i) {
      // The last bytes may be a flag that says "false"; everything else is data of which any bit counts, or
      // form without which nothing is read.
      for (std::size_t at = 0; at + 20 < all[i].size(); at += 1 + all[i].size() / 97) {
        auto changed = all;
        changed[i][at] ^= std::byte{0x01};
        EXPECT_FALSE(take(sender, changed).ok()) << "chunk " << i << ", byte " << at;
      }
    }
  }
}

TEST_P(OmniFarEnd, refuses_a_stream_with_a_chunk_left_out_or_of_another_request) {
  if (!GetParam().async_chunk) return;  // there is one chunk only
  for (const StageRole sender : {StageRole::thinker, StageRole::talker}) {
    auto all = chunks(sender);
    auto without = all;
    without.erase(without.begin() + 1);
    EXPECT_FALSE(take(sender, without).ok());
    std::swap(all[1], all[2 % all.size()]);
    EXPECT_FALSE(take(sender, all).ok());
  }
}

INSTANTIATE_TEST_SUITE_P(All, OmniFarEnd,
                         ::testing::Values(Case{&qwen3_omni_moe(), true}, Case{&qwen3_omni_moe(), false},
                                           Case{&qwen2_5_omni(), true}, Case{&qwen2_5_omni(), false}),
                         [](const auto& test) {
                           return std::string(test.param.model->pipeline) +
                                  (test.param.async_chunk ? "_chunks" : "_full_payload");
                         });

}  // namespace
}  // namespace stagewire::pipeline::omni
