#include "chunk/processors/qwen3_omni/thinker2talker_async_chunk.hpp"

namespace stagewire::chunk::qwen3_omni {
namespace {

Value* prompt_payload(const ChunkRequest& request, ThinkerStream& stream, bool is_first) {
  Value::Map embed{{"prefill", stream.prompt_embedding.view()}};
  if (is_first) append_marks(stream.marks, embed);
  const SegmentIds ids = is_first ? SegmentIds::all_of(request) : std::move(stream.held_ids);
  Value::Map payload{{"hidden_states", Value::Map{{"output", stream.prompt_hidden.view()}}},
                     {"embed", std::move(embed)},
                     {"ids", Value::Map{{"all", ids.all}, {"prompt", ids.prompt}}},
                     {"meta", Value::Map{}}};
  if (stream.voice.take(request)) stream.reply = Value();
  stream.voice.append_to(payload);
  stream.prompt = Value(std::move(payload));
  return &stream.prompt;
}

Value reply_form(const ThinkerStream& stream, bool with_ids) {
  Value::Map payload;
  if (stream.progress.streaming())
    payload.emplace_back("hidden_states", Value::Map{{"output", TensorView()}});
  payload.emplace_back("embed", Value::Map{{"decode", TensorView()}});
  if (with_ids) payload.emplace_back("ids", Value::Map{{"output", Value::List()}});
  payload.emplace_back("meta", Value::Map{});
  stream.voice.append_to(payload);
  return payload;
}

// The rows of this step, in the payload of the step before when that had the same form.
Value* reply_payload(const ChunkRequest& request, ThinkerStream& stream, const ThinkerRows& rows) {
  const bool streaming = stream.progress.streaming();
  const bool with_ids = streaming && !request.output_ids.empty();
  const bool same_form = stream.reply.find("embed") != nullptr &&
                         (stream.reply.find("hidden_states") != nullptr) == streaming &&
                         (stream.reply.find("ids") != nullptr) == with_ids;
  if (stream.voice.take(request) || !same_form) stream.reply = reply_form(stream, with_ids);

  stream.reply_embedding.clear();
  stream.reply_embedding.append(*rows.embedding);
  stream.reply_embedding.view_into(*stream.reply.find("embed")->find("decode")->get_if<TensorView>());
  if (streaming) {
    stream.reply_hidden.clear();
    stream.reply_hidden.append(*rows.hidden);
    stream.reply_hidden.view_into(*stream.reply.find("hidden_states")->find("output")->get_if<TensorView>());
  }
  if (with_ids) {
    stream.reply.find("ids")->find("output")->get_if<Value::List>()->assign(request.output_ids.begin(),
                                                                            request.output_ids.end());
  }
  return &stream.reply;
}

}  // namespace

void ThinkerStream::drop_prompt() {
  prompt_embedding.release();
  prompt_hidden.release();
  prompt = Value();
}

void ThinkerStream::end_segment() {
  drop_prompt();
  progress.end_segment();
}

Result<Value*> Thinker2TalkerAsyncChunk::process(const ChunkRequest& request, const Value& output,
                                                 bool terminal) {
  ThinkerStream* const known = states_.find(request.external_id);
  const PromptProgress progress = known != nullptr ? known->progress : PromptProgress();
  const auto rows = read_rows(request, output, progress.most_rows(request));
  if (!rows.ok()) return rows.error();
  const auto marks = read_marks(request, output);
  if (!marks.ok()) return marks.error();
  const StepPlan plan = progress.plan(request, rows->count, terminal);
  const bool is_first = plan.send && !progress.begun();
  if (is_first) {
    const Status status = check_marks(request, *marks, known != nullptr ? &known->marks : nullptr);
    if (!status.ok()) return status.error();
  }

  ThinkerStream& stream = states_.get(request.external_id);
  if (progress.held() == 0) stream.drop_prompt();  // which went out with the last call
  if (!progress.begun()) keep_marks(*marks, stream.marks);
  if (plan.with_prompt && rows->count > 0) {
    const std::int64_t expected = (progress.begun() ? rows->count : std::ssize(request.prompt_ids)) + 1;
    stream.prompt_embedding.append(*rows->embedding, expected);
    stream.prompt_hidden.append(*rows->hidden, expected);
    if (progress.begun() && plan.prompt_rows > 0)
      stream.held_ids = SegmentIds::of_prompt(request, stream.prompt_embedding.count());
  }
  stream.progress.apply(request, plan);
  if (!plan.send) return nullptr;
  return plan.with_prompt ? prompt_payload(request, stream, is_first) : reply_payload(request, stream, *rows);
}

}  // namespace stagewire::chunk::qwen3_omni
