#include "chunk/processors/talker2code2wav_async_chunk.hpp"

namespace stagewire::chunk {

Result<Value*> Talker2Code2WavAsyncChunk::process(const ChunkRequest& request, const Value& output,
                                                  bool terminal) {
  frames_.clear();
  if (Status status = append_frames(request, output, form_, false, frames_); !status.ok())
    return status.error();
  TalkerStream& stream = states_.get(request.external_id);
  stream.window.append(frames_, form_);
  const auto window = stream.window.take(sizes_, form_, terminal);
  if (!window) return nullptr;
  return payload_of(*window, stream.payload);
}

Value* Talker2Code2WavAsyncChunk::payload_of(const CodeWindow::Window& window, Value& payload) const {
  if (payload.find("codes") == nullptr) {
    Value::Map meta{{"left_context_size", 0}};
    if (form_.lookahead_frames > 0) meta.emplace_back("right_holdback_size", 0);
    payload = Value::Map{{"codes", Value::Map{{"audio", TensorView()}}}, {"meta", std::move(meta)}};
  }
  TensorView& codes = *payload.find("codes")->find("audio")->get_if<TensorView>();
  codes.dtype = DType::int64;
  codes.shape.assign({static_cast<std::int64_t>(window.codes.size())});
  codes.data = std::as_bytes(window.codes).data();
  Value& meta = *payload.find("meta");
  *meta.find("left_context_size") = window.left_context;
  if (form_.lookahead_frames > 0) *meta.find("right_holdback_size") = window.holdback;
  return &payload;
}

}  // namespace stagewire::chunk
