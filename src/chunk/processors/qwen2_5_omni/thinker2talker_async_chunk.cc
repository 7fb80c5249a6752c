#include "chunk/processors/qwen2_5_omni/thinker2talker_async_chunk.hpp"

namespace stagewire::chunk::qwen2_5_omni {
namespace {

Value* prompt_payload(const ChunkRequest& request, ThinkerStream& stream, bool is_first, bool with_reply) {
  Value::Map embed;
  if (stream.prompt.count() > 0) embed.emplace_back("prefill", stream.prompt.view());
  if (with_reply) embed.emplace_back("decode", stream.reply.view());
  const SegmentIds ids = is_first ? SegmentIds::all_of(request) : std::move(stream.held_ids);
  Value::Map payload{
      {"embed", std::move(embed)},
      {"ids", Value::Map{{"all", ids.all}, {"prompt", ids.prompt}}},
      {"meta", Value::Map{{"next_stage_prompt_len", std::ssize(ids.prompt) + kMarksAroundPrompt}}}};
  if (stream.voice.take(request)) stream.reply_payload = Value();
  stream.voice.append_to(payload);
  stream.prompt_payload = Value(std::move(payload));
  return &stream.prompt_payload;
}

// The payload of the step before, with the rows of this one.
Value* reply_payload(const ChunkRequest& request, ThinkerStream& stream) {
  if (stream.voice.take(request) || stream.reply_payload.find("embed") == nullptr) {
    Value::Map payload{{"embed", Value::Map{{"decode", TensorView()}}}, {"meta", Value::Map{}}};
    stream.voice.append_to(payload);
    stream.reply_payload = Value(std::move(payload));
  }
  stream.reply.view_into(*stream.reply_payload.find("embed")->find("decode")->get_if<TensorView>());
  return &stream.reply_payload;
}

Status check_dtype(const ChunkRequest& request, const ThinkerRows& rows, const ThinkerStream* stream) {
  if (rows.count == 0 || stream == nullptr || !stream->dtype || *stream->dtype == rows.latent->dtype)
    return {};
  return bad_output(request, "latent",
                    "is " + form_text(*rows.latent) + ", expected " + std::string(to_string(*stream->dtype)) +
                        " [rows, 3584] as in the steps before");
}

}  // namespace

void ThinkerStream::drop_prompt() {
  prompt.release();
  prompt_payload = Value();
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
  if (Status status = check_dtype(request, *rows, known); !status.ok()) return status.error();
  const StepPlan plan = progress.plan(request, rows->count, terminal);

  ThinkerStream& stream = states_.get(request.external_id);
  if (progress.held() == 0) stream.drop_prompt();  // which went out with the last call
  if (rows->count > 0) stream.dtype = rows->latent->dtype;
  if (plan.prompt_rows > 0) {
    stream.prompt.append(row_range(*rows->latent, 0, plan.prompt_rows),
                         progress.begun() ? plan.prompt_rows : std::ssize(request.prompt_ids));
    if (progress.begun()) stream.held_ids = SegmentIds::of_prompt(request, stream.prompt.count());
  }
  if (plan.reply_rows > 0) {
    stream.reply.clear();
    if (plan.prompt_rows == 0) {
      stream.reply.append(*rows->latent);
    } else {
      stream.reply.append(row_range(*rows->latent, plan.prompt_rows, plan.reply_rows));
    }
  }
  stream.progress.apply(request, plan);
  if (!plan.send) return nullptr;
  if (plan.with_prompt) return prompt_payload(request, stream, !progress.begun(), plan.reply_rows > 0);
  return reply_payload(request, stream);
}

}  // namespace stagewire::chunk::qwen2_5_omni
