#include "chunk/processors/qwen3_omni/thinker2talker_full_payload.hpp"

#include <algorithm>

namespace stagewire::chunk::qwen3_omni {
namespace {

Value* payload_of(const ChunkRequest& request, WholeThinkerStream& stream) {
  const std::int64_t count = std::max<std::int64_t>(stream.embedding.count() - 1, 1);
  const auto ids = SegmentIds::after(request, stream.rows.earlier());
  Value::Map embed{{"prefill", stream.embedding.view(count)}};
  append_marks(stream.marks, embed);
  Value::Map payload{{"hidden_states", Value::Map{{"output", stream.hidden.view(count)}}},
                     {"embed", std::move(embed)},
                     {"ids", Value::Map{{"all", ids.all}, {"prompt", ids.prompt}}},
                     {"meta", Value::Map{}}};
  stream.voice.take(request);
  stream.voice.append_to(payload);
  stream.payload = Value(std::move(payload));
  stream.sent = true;
  return &stream.payload;
}

}  // namespace

void WholeThinkerStream::end_segment() {
  rows.begin_segment();
  embedding.release();
  hidden.release();
  payload = Value();
  sent = false;
}

Result<Value*> Thinker2TalkerFullPayload::process(const ChunkRequest& request, const Value& output,
                                                  bool terminal) {
  WholeThinkerStream* const known = states_.find(request.external_id);
  if (known != nullptr && known->sent) known->end_segment();
  const auto rows =
      read_rows(request, output, (known != nullptr ? known->rows : WholeStream()).most_rows(request));
  if (!rows.ok()) return rows.error();
  const auto marks = read_marks(request, output);
  if (!marks.ok()) return marks.error();
  if (terminal) {
    if (rows->count == 0 && (known == nullptr || known->rows.count() == 0)) {
      return bad_output(request, "hidden_states.layers[0]",
                        "has no row in any step, expected bfloat16 [rows, 2048]");
    }
    const Status status = check_marks(request, *marks, known != nullptr ? &known->marks : nullptr);
    if (!status.ok()) return status.error();
  }

  WholeThinkerStream& stream = states_.get(request.external_id);
  keep_marks(*marks, stream.marks);
  if (rows->count > 0) {
    stream.embedding.append(*rows->embedding, stream.rows.prompt_count(request) + kMaxDecodeRows);
    stream.hidden.append(*rows->hidden, stream.rows.prompt_count(request) + kMaxDecodeRows);
    stream.rows.add(rows->count);
  }
  return terminal ? payload_of(request, stream) : nullptr;
}

}  // namespace stagewire::chunk::qwen3_omni
