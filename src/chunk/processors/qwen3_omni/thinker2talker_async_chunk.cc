#include "chunk/processors/qwen3_omni/thinker2talker_async_chunk.hpp"

#include <algorithm>

namespace stagewire::chunk::qwen3_omni {
namespace {

std::int64_t prompt_count(const ChunkRequest& request) {
  return static_cast<std::int64_t>(request.prompt_ids.size());
}

// Most rows that this step may bring.
std::int64_t most_rows(const ChunkRequest& request, const ThinkerStream* stream) {
  if (stream == nullptr || !stream->begun) {
    const std::int64_t held = stream != nullptr ? stream->held_embedding.count() : 0;
    return std::max<std::int64_t>(prompt_count(request) - held, 0) + kMaxDecodeRows;
  }
  return stream->streaming || request.resumable ? prompt_count(request) + kMaxDecodeRows : kMaxDecodeRows;
}

Value* prompt_payload(const ChunkRequest& request, ThinkerStream& stream, Value::Map ids, bool with_marks) {
  stream.sent = true;
  Value::Map embed{{"prefill", stream.held_embedding.view()}};
  if (with_marks) append_marks(stream.marks, embed);
  Value::Map payload{{"hidden_states", Value::Map{{"output", stream.held_hidden.view()}}},
                     {"embed", std::move(embed)},
                     {"ids", std::move(ids)},
                     {"meta", Value::Map{}}};
  if (stream.voice.take(request)) stream.decode = Value();
  stream.voice.append_to(payload);
  stream.prompt = Value(std::move(payload));
  return &stream.prompt;
}

Value decode_form(const ThinkerStream& stream, bool with_hidden, bool with_ids) {
  Value::Map payload;
  if (with_hidden) payload.emplace_back("hidden_states", Value::Map{{"output", TensorView()}});
  payload.emplace_back("embed", Value::Map{{"decode", TensorView()}});
  if (with_ids) payload.emplace_back("ids", Value::Map{{"output", Value::List()}});
  payload.emplace_back("meta", Value::Map{});
  stream.voice.append_to(payload);
  return payload;
}

// The rows of this step, in the payload of the step before when that had the same form.
Value* decode_payload(const ChunkRequest& request, ThinkerStream& stream, const ThinkerRows& rows) {
  const bool with_ids = stream.streaming && !request.output_ids.empty();
  const bool same_form = (stream.decode.find("hidden_states") != nullptr) == stream.streaming &&
                         (stream.decode.find("ids") != nullptr) == with_ids &&
                         stream.decode.find("embed") != nullptr;
  if (stream.voice.take(request) || !same_form)
    stream.decode = decode_form(stream, stream.streaming, with_ids);

  stream.decode_embedding.clear();
  stream.decode_embedding.append(*rows.embedding);
  stream.decode_embedding.view_into(*stream.decode.find("embed")->find("decode")->get_if<TensorView>());
  if (stream.streaming) {
    stream.decode_hidden.clear();
    stream.decode_hidden.append(*rows.hidden);
    stream.decode_hidden.view_into(
        *stream.decode.find("hidden_states")->find("output")->get_if<TensorView>());
  }
  if (with_ids) {
    stream.decode.find("ids")->find("output")->get_if<Value::List>()->assign(request.output_ids.begin(),
                                                                             request.output_ids.end());
  }
  return &stream.decode;
}

// A step of a request that has been resumable, after chunk 0.
Value* segment_step(const ChunkRequest& request, ThinkerStream& stream, const ThinkerRows& rows,
                    bool terminal) {
  const bool holds = stream.held_embedding.count() > 0;
  const bool before_output = request.output_ids.empty() && (!terminal || holds);
  const bool of_prompt = rows.count > 1 || (rows.count == 1 && before_output);
  if (rows.count > 0 && (of_prompt || holds)) stream.hold(rows, prompt_count(request) + 1);
  if (of_prompt) {
    const auto prompt = last_of(request.prompt_ids, stream.held_embedding.count());
    stream.held_prompt_ids = id_list(prompt);
    stream.held_all_ids = id_list(prompt, request.output_ids);
  }
  const bool row_after_prompt = holds && rows.count > 0 && !of_prompt;
  if (stream.held_embedding.count() > 0) {
    if (!terminal && !row_after_prompt) return nullptr;
    return prompt_payload(
        request, stream,
        {{"all", std::move(stream.held_all_ids)}, {"prompt", std::move(stream.held_prompt_ids)}}, false);
  }
  return rows.count > 0 ? decode_payload(request, stream, rows) : nullptr;
}

}  // namespace

void ThinkerStream::hold(const ThinkerRows& rows, std::int64_t reserve_count) {
  held_embedding.append(*rows.embedding, reserve_count);
  held_hidden.append(*rows.hidden, reserve_count);
}

void ThinkerStream::drop_sent() {
  if (!sent) return;
  held_embedding.release();
  held_hidden.release();
  prompt = Value();
  sent = false;
}

void ThinkerStream::end_segment() {
  sent = true;
  drop_sent();
}

Result<Value*> Thinker2TalkerAsyncChunk::step(const ChunkRequest& request, const Value& output,
                                              bool terminal) {
  ThinkerStream* const known = states_.find(request.external_id);
  if (known != nullptr) known->drop_sent();
  const auto rows = read_rows(request, output, most_rows(request, known));
  if (!rows.ok()) return rows.error();
  if (known != nullptr && known->begun) {
    known->streaming = known->streaming || request.resumable;
    if (known->streaming) return segment_step(request, *known, *rows, terminal);
    return rows->count > 0 ? decode_payload(request, *known, *rows) : nullptr;
  }

  const auto marks = read_marks(request, output);
  if (!marks.ok()) return marks.error();
  const std::int64_t count = rows->count + (known != nullptr ? known->held_embedding.count() : 0);
  if (count == 0) return nullptr;
  const bool complete = terminal || count > prompt_count(request);
  if (complete) {
    const Status status = check_marks(request, *marks, known != nullptr ? &known->marks : nullptr);
    if (!status.ok()) return status.error();
  }
  ThinkerStream& stream = states_.get(request.external_id);
  stream.streaming = stream.streaming || request.resumable;
  keep_marks(*marks, stream.marks);
  if (rows->count > 0) stream.hold(*rows, prompt_count(request) + 1);
  if (!complete) return nullptr;
  stream.begun = true;
  return prompt_payload(
      request, stream,
      {{"all", id_list(request.prompt_ids, request.output_ids)}, {"prompt", id_list(request.prompt_ids)}},
      true);
}

}  // namespace stagewire::chunk::qwen3_omni
