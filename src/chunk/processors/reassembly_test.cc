// For any split of a stream into steps and chunks, encoded and decoded on the way, the far end has exactly
// the rows and codes of the unsplit stream, each once.
#include <random>

#include "chunk/processors/code_reader.hpp"
#include "chunk/processors/qwen2_5_omni/thinker_fixture.hpp"
#include "chunk/processors/qwen3_omni/thinker_fixture.hpp"
#include "chunk/processors/thinker_reader.hpp"
#include "support/test_seed.hpp"

namespace stagewire::chunk {
namespace {

class Reassembly : public ::testing::Test {
 protected:
  std::int64_t random(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(engine_);
  }
  bool one_in(std::int64_t count) { return random(1, count) == 1; }

 private:
  std::mt19937_64 engine_{test::test_seed()};
};

/// A thinker's edge with both its ends; rows are numbered through all segments.
struct ThinkerEdge {
  explicit ThinkerEdge(bool is_qwen3)
      : qwen3(is_qwen3),
        processor(make(is_qwen3 ? "qwen3_omni.thinker2talker_async_chunk"
                                : "qwen2_5_omni.thinker2talker_async_chunk")),
        reader(is_qwen3 ? kQwen3Thinker : kQwen25Thinker, Path::chunks, "chat-1") {}

  /// A step of `count` rows, or of none at all for 0.
  void step(std::int64_t count, bool terminal, ChunkEnd end) {
    std::optional<Value> payload;
    if (count == 0) {
      payload = processed(*processor, request, Value(), terminal);
    } else if (qwen3) {
      payload = processed(*processor, request, qwen3_omni::ThinkerStep(rows, count).output(), terminal);
    } else {
      payload = processed(*processor, request, qwen2_5_omni::ThinkerStep(rows, count).output(), terminal);
    }
    rows += count;
    if (!payload && !terminal) return;
    const Delivered delivered(payload, end);
    const auto chunk = reader.take(delivered.value());
    ASSERT_TRUE(chunk.ok()) << chunk.error().to_string();
    append_bytes(chunk->prefill, arrived);
    append_bytes(chunk->decode, arrived);
    append_bytes(chunk->hidden, arrived_hidden);
  }
  void expect_all(bool hidden_comes_with_all) const {
    EXPECT_EQ(reader.row_count(), rows);
    if (!qwen3) {
      EXPECT_EQ(arrived, qwen2_5_omni::ThinkerStep(0, rows).latent.bytes());
      return;
    }
    const qwen3_omni::ThinkerStep all(0, rows);
    EXPECT_EQ(arrived, all.embedding.bytes());
    std::vector<std::byte> hidden = all.hidden.bytes();
    if (!hidden_comes_with_all) hidden.resize(std::min(hidden.size(), arrived_hidden.size()));
    EXPECT_EQ(arrived_hidden, hidden);
  }

  bool qwen3;
  TestRequest request;
  std::unique_ptr<ChunkProcessor> processor;
  ThinkerReader reader;
  std::int64_t rows = 0;
  std::vector<std::byte> arrived;
  std::vector<std::byte> arrived_hidden;
};

TEST_F(Reassembly, of_rows_of_one_prompt) {
  for (int round = 0; round < 120; ++round) {
    SCOPED_TRACE(round);
    ThinkerEdge edge(one_in(2));
    const std::int64_t prompt = random(0, 20);
    const std::int64_t total = random(1, prompt + 20);
    edge.request.prompt_ids = counting(0, static_cast<std::size_t>(prompt));
    const bool end_alone = one_in(2);
    while (edge.rows < total) {
      const std::int64_t count = std::min(total - edge.rows, one_in(2) ? 1 : random(0, 6));
      const bool last = edge.rows + count == total && !end_alone;
      if (edge.rows + count > prompt) edge.request.output_ids.push_back(edge.rows);
      edge.step(count, last, {last, last});
      if (HasFatalFailure()) return;
    }
    if (end_alone) edge.step(0, true, {true, true});
    EXPECT_TRUE(edge.reader.finished());
    edge.expect_all(false);
  }
}

TEST_F(Reassembly, of_rows_of_many_segments) {
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(round);
    ThinkerEdge edge(one_in(2));
    const std::int64_t segments = random(2, 4);
    for (std::int64_t segment = 0; segment < segments; ++segment) {
      edge.request.resumable = segment + 1 < segments;
      edge.request.output_ids.clear();
      const std::int64_t prompt = random(1, 9);
      edge.request.prompt_ids = counting(0, static_cast<std::size_t>(edge.rows + prompt));
      for (std::int64_t left = prompt; left > 0;) {
        const std::int64_t count = random(1, left);
        edge.step(count, false, {});
        if (HasFatalFailure()) return;
        left -= count;
      }
      for (std::int64_t row = random(0, 5); row > 0; --row) {
        edge.request.output_ids.push_back(row);
        edge.step(1, false, {});
        if (HasFatalFailure()) return;
      }
      edge.step(0, true, {!edge.request.resumable, true});
      if (HasFatalFailure()) return;
      edge.processor->end_segment(edge.request.external_id);
    }
    edge.expect_all(true);
  }
}

/// A talker's edge with both its ends.
struct TalkerEdge {
  TalkerEdge(const CodecForm& codec, const ChunkProcessorOptions& options)
      : form(codec),
        processor(make(codec.codebook_count == 16 ? "qwen3_omni.talker2code2wav_async_chunk"
                                                  : "qwen2_5_omni.talker2code2wav_async_chunk",
                       options)),
        reader(codec, *WindowSizes::from(options, codec), Path::chunks, "chat-1") {}

  void step(const std::vector<std::int64_t>& codes, bool terminal, ChunkEnd end) {
    const TestTensor tensor = TestTensor::codes(codes, form.codebook_count);
    const auto payload =
        processed(*processor, request, codes.empty() ? Value() : codes_output(tensor), terminal);
    if (!payload && !terminal) return;
    const Delivered delivered(payload, end);
    const auto chunk = reader.take(delivered.value());
    ASSERT_TRUE(chunk.ok()) << chunk.error().to_string();
    arrived.insert(arrived.end(), chunk->codes.begin(), chunk->codes.end());
  }

  const CodecForm form;
  TestRequest request;
  std::unique_ptr<ChunkProcessor> processor;
  CodeReader reader;
  std::vector<std::int64_t> arrived;
};

TEST_F(Reassembly, of_codes) {
  for (int round = 0; round < 400; ++round) {
    SCOPED_TRACE(round);
    const CodecForm& form = one_in(2) ? kQwen3Codec : kQwen25Codec;
    const auto size = [&](std::int64_t least) { return static_cast<int>(random(least, 40)); };
    TalkerEdge edge(form, {size(1), size(0), one_in(2) ? 0 : size(0)});
    std::vector<std::int64_t> expected;
    const std::int64_t segments = random(1, 3);
    for (std::int64_t segment = 0; segment < segments; ++segment) {
      const std::int64_t steps = random(0, 150);
      for (std::int64_t step = 0; step <= steps; ++step) {
        std::vector<std::int64_t> codes;
        for (std::int64_t frame = one_in(4) ? random(0, 9) : 1; frame > 0; --frame) {
          std::vector<std::int64_t> made(static_cast<std::size_t>(form.codebook_count));
          const bool is_zero = form.zero_is_no_frame && one_in(9);
          for (auto& code : made) code = is_zero ? 0 : random(0, form.code_count - 1);
          if (form.zero_is_no_frame && !is_zero) made.back() = random(1, form.code_count - 1);
          const bool is_control = one_in(9);
          if (is_control) made[0] = form.control_ids[static_cast<std::size_t>(random(0, 2))];
          codes.insert(codes.end(), made.begin(), made.end());
          if (!is_zero && !is_control) expected.insert(expected.end(), made.begin(), made.end());
        }
        const bool terminal = step == steps;
        edge.step(codes, terminal, {terminal && segment + 1 == segments, terminal});
        if (HasFatalFailure()) return;
      }
      edge.processor->end_segment(edge.request.external_id);
    }
    EXPECT_TRUE(edge.reader.finished());
    ASSERT_EQ(edge.arrived, expected);
  }
}

TEST_F(Reassembly, of_full_payloads) {
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(round);
    const bool qwen3 = one_in(2);
    const auto processor =
        make(qwen3 ? "qwen3_omni.thinker2talker_full_payload" : "qwen2_5_omni.thinker2talker_full_payload");
    ThinkerReader reader(qwen3 ? kQwen3Thinker : kQwen25Thinker, Path::full_payload, "chat-1");
    TestRequest request;
    request.prompt_ids = counting(0, static_cast<std::size_t>(random(0, 20)));
    const std::int64_t total = random(1, 40);
    for (std::int64_t row = 0; row < total;) {
      const std::int64_t count = random(1, std::min<std::int64_t>(total - row, 7));
      const auto payload = qwen3
                               ? processed(*processor, request, qwen3_omni::ThinkerStep(row, count).output())
                               : processed(*processor, request,
                                           qwen2_5_omni::ThinkerStep(row, count, DType::float32).output());
      EXPECT_FALSE(payload);
      row += count;
    }
    const Delivered delivered(processed(*processor, request, Value(), true), {true, true});
    const auto chunk = reader.take(delivered.value());
    ASSERT_TRUE(chunk.ok()) << chunk.error().to_string();
    std::vector<std::byte> arrived;
    append_bytes(chunk->prefill, arrived);
    append_bytes(chunk->decode, arrived);
    if (qwen3) {
      EXPECT_EQ(arrived, qwen3_omni::ThinkerStep(0, std::max<std::int64_t>(total - 1, 1)).embedding.bytes());
    } else {
      EXPECT_EQ(arrived, qwen2_5_omni::ThinkerStep(0, total, DType::float32).latent.bytes());
    }
  }
}

TEST_F(Reassembly, of_full_payloads_of_codes) {
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(round);
    const CodecForm& form = one_in(2) ? kQwen3Codec : kQwen25Codec;
    const bool qwen3 = form.codebook_count == 16;
    const auto processor =
        make(qwen3 ? "qwen3_omni.talker2code2wav_full_payload" : "qwen2_5_omni.talker2code2wav_full_payload");
    TestRequest request;
    std::vector<std::int64_t> expected;
    for (std::int64_t frame = random(1, 60); frame > 0; --frame) {
      std::vector<std::int64_t> codes(static_cast<std::size_t>(form.codebook_count));
      for (auto& code : codes) code = random(0, form.code_count - 1);
      expected.insert(expected.end(), codes.begin(), codes.end());
      request.output_ids.push_back(codes[0]);
      const TestTensor tensor = TestTensor::codes(codes, form.codebook_count);
      EXPECT_FALSE(processed(*processor, request, codes_output(tensor)));
    }
    CodeReader reader(form, *WindowSizes::from({}, form), Path::full_payload, "chat-1");
    const Delivered delivered(processed(*processor, request, Value(), true), {true, true});
    const auto chunk = reader.take(delivered.value());
    ASSERT_TRUE(chunk.ok()) << chunk.error().to_string();
    EXPECT_EQ(std::vector<std::int64_t>(chunk->codes.begin(), chunk->codes.end()), expected);
  }
}

}  // namespace
}  // namespace stagewire::chunk
