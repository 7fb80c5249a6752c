#include "chunk/processors/thinker_reader.hpp"

#include <array>
#include <limits>

#include "base/text.hpp"
#include "chunk/processors/qwen2_5_omni/thinker_output.hpp"
#include "chunk/processors/qwen3_omni/thinker_output.hpp"

namespace stagewire::chunk {
namespace {

constexpr std::array kBfloat16{DType::bfloat16};
constexpr std::array kBothFloats{DType::bfloat16, DType::float32};
constexpr std::array kFloat32{DType::float32};
constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

std::int64_t rows_of(const TensorView* rows) {
  return rows != nullptr ? rows->shape[0] : 0;
}

// hidden_states.output beside `rows`, as many of them.
Status read_hidden(const ChunkFields& fields, const ThinkerForm& form, std::int64_t count,
                   ThinkerChunk& chunk) {
  const auto hidden = fields.rows("hidden_states", "output", form.rows, count, count);
  if (!hidden.ok()) return hidden.error();
  chunk.hidden = *hidden;
  return {};
}

}  // namespace

constinit const ThinkerForm kQwen3Thinker{{qwen3_omni::kHiddenSize, kBfloat16}, true};
constinit const ThinkerForm kQwen25Thinker{{qwen2_5_omni::kHiddenSize, kBothFloats}, false};

Result<ThinkerChunk> ThinkerReader::take(const Value& chunk) {
  const ChunkFields fields(chunk, request_, chunk_count_);
  if (finished_) return fields.wrong("meta.finished", "was set in a chunk before this one");
  auto read_chunk = read(fields);
  if (!read_chunk.ok()) return read_chunk;
  ++chunk_count_;
  row_count_ += rows_of(read_chunk->prefill) + rows_of(read_chunk->decode);
  finished_ = read_chunk->end.finished;
  return read_chunk;
}

Result<ThinkerChunk> ThinkerReader::read(const ChunkFields& fields) const {
  const auto end = fields.end();
  if (!end.ok()) return end.error();
  ThinkerChunk chunk;
  chunk.end = *end;
  if (path_ == Path::full_payload) {
    if (!chunk.end.any()) return fields.wrong("meta.finished", "is not set, expected one payload at the end");
    if (Status status = read_full(fields, chunk); !status.ok()) return status.error();
    return chunk;
  }
  if (fields.has("embed", "prefill") || fields.has("ids", "prompt")) {
    if (Status status = read_prompt(fields, chunk); !status.ok()) return status.error();
    return chunk;
  }
  if (!fields.has("embed", "decode")) {
    if (chunk.end.any()) return chunk;
    return fields.wrong("embed", "has no rows and nothing ends with this chunk");
  }
  if (row_count_ == 0) return fields.wrong("embed.prefill", "is missing in the first chunk with rows");
  const auto decode = fields.rows("embed", "decode", form_.rows, 1, kMaxDecodeRows);
  if (!decode.ok()) return decode.error();
  chunk.decode = *decode;
  if (form_.two_kinds && fields.has("hidden_states", "output")) {
    if (Status status = read_hidden(fields, form_, rows_of(chunk.decode), chunk); !status.ok())
      return status.error();
  }
  return chunk;
}

// The rows of a prompt of `prompt_count` tokens: all, and one after them, unless the stream ends before.
Status ThinkerReader::read_whole_prompt(const ChunkFields& fields, ThinkerChunk& chunk,
                                        std::int64_t prompt_count) const {
  const bool is_last = chunk.end.any();
  if (form_.two_kinds) {
    const auto prefill = fields.rows("embed", "prefill", form_.rows, is_last ? 1 : prompt_count + 1,
                                     prompt_count + kMaxDecodeRows);
    if (!prefill.ok()) return prefill.error();
    chunk.prefill = *prefill;
    if (Status status = read_hidden(fields, form_, rows_of(chunk.prefill), chunk); !status.ok())
      return status;
    for (std::size_t i = 0; row_count_ == 0 && i < qwen3_omni::kMarks.size(); ++i) {
      Status status =
          fields.exactly("embed", qwen3_omni::kMarks[i], DType::bfloat16, {1, 1, form_.rows.width});
      if (!status.ok()) return status;
    }
    return {};
  }
  if (prompt_count > 0) {
    const auto prefill =
        fields.rows("embed", "prefill", form_.rows, is_last ? 1 : prompt_count, prompt_count);
    if (!prefill.ok()) return prefill.error();
    chunk.prefill = *prefill;
  }
  if (is_last && !fields.has("embed", "decode")) return {};
  const auto decode = fields.rows("embed", "decode", form_.rows, 1, kMaxDecodeRows);
  if (!decode.ok()) return decode.error();
  chunk.decode = *decode;
  return {};
}

Status ThinkerReader::read_prompt(const ChunkFields& fields, ThinkerChunk& chunk) const {
  const auto prompt_ids = fields.integers("ids", "prompt");
  if (!prompt_ids.ok()) return prompt_ids.error();
  const auto all_ids = fields.integers("ids", "all");
  if (!all_ids.ok()) return all_ids.error();
  if ((*all_ids)->size() < (*prompt_ids)->size())
    return fields.wrong("ids.all",
                        base::text("has ", (*all_ids)->size(), " ids, expected those of the prompt, ",
                                   (*prompt_ids)->size(), ", and more"));
  chunk.prompt_ids = *prompt_ids;
  const std::int64_t prompt_count = std::ssize(**prompt_ids);
  if (!form_.two_kinds) {
    const std::int64_t expected = prompt_count + qwen2_5_omni::kMarksAroundPrompt;
    const auto length = fields.integer("meta", "next_stage_prompt_len", expected);
    if (!length.ok()) return length.error();
    if (*length != expected)
      return fields.wrong("meta.next_stage_prompt_len", base::text("is ", *length, ", expected ", expected));
  }
  return read_whole_prompt(fields, chunk, prompt_count);
}

Status ThinkerReader::read_full(const ChunkFields& fields, ThinkerChunk& chunk) const {
  if (form_.two_kinds) {
    const auto prompt_ids = fields.integers("ids", "prompt");
    if (!prompt_ids.ok()) return prompt_ids.error();
    chunk.prompt_ids = *prompt_ids;
    const auto prefill = fields.rows("embed", "prefill", form_.rows, 1, kNoLimit);
    if (!prefill.ok()) return prefill.error();
    chunk.prefill = *prefill;
    return read_hidden(fields, form_, rows_of(chunk.prefill), chunk);
  }
  const RowForm floats{form_.rows.width, kFloat32};
  const auto prompt_ids = fields.integers("", "prompt_token_ids");
  if (!prompt_ids.ok()) return prompt_ids.error();
  chunk.prompt_ids = *prompt_ids;
  const auto prompt = fields.rows("", "prompt_embeds", floats, 0, std::ssize(**prompt_ids));
  if (!prompt.ok()) return prompt.error();
  const auto result = fields.rows("", "thinker_result", floats, 0, kNoLimit);
  if (!result.ok()) return result.error();
  chunk.prefill = *prompt;
  chunk.decode = *result;
  return {};
}

}  // namespace stagewire::chunk
