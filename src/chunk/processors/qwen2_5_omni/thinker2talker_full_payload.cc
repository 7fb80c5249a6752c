#include "chunk/processors/qwen2_5_omni/thinker2talker_full_payload.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "payload/layout.hpp"

namespace stagewire::chunk::qwen2_5_omni {
namespace {

// Appends rows as float32. bfloat16 is the upper half of a float32: nothing is rounded.
void append_floats(const TensorView& rows, std::vector<float>& values) {
  const auto count = static_cast<std::size_t>(rows.shape[0] * rows.shape[1]);
  values.resize(values.size() + count);
  const auto fresh = std::span(values).last(count);
  if (rows.dtype == DType::float32) {
    payload::copy_row_major(rows, fresh.size_bytes(), reinterpret_cast<std::byte*>(fresh.data()));
    return;
  }
  std::vector<std::uint16_t> halves(count);
  payload::copy_row_major(rows, count * sizeof(std::uint16_t), reinterpret_cast<std::byte*>(halves.data()));
  std::transform(halves.begin(), halves.end(), fresh.begin(),
                 [](std::uint16_t half) { return std::bit_cast<float>(std::uint32_t{half} << 16U); });
}

TensorView tensor_of(std::span<const float> rows) {
  return {DType::float32, {std::ssize(rows) / kHiddenSize, kHiddenSize}, std::as_bytes(rows).data(), {}};
}

Value::List shape_of(std::span<const float> rows) {
  return {std::ssize(rows) / kHiddenSize, kHiddenSize};
}

Value* payload_of(const ChunkRequest& request, WholeThinkerStream& stream) {
  const auto prompt_rows = std::min(stream.rows.prompt_count(request), stream.rows.count());
  const std::span<const float> values = stream.values;
  const auto prompt = values.first(static_cast<std::size_t>(prompt_rows * kHiddenSize));
  const auto result = values.subspan(prompt.size());
  Value::List prompt_ids = SegmentIds::after(request, stream.rows.earlier()).prompt;
  const std::int64_t talker_prompt = std::ssize(prompt_ids) + kMarksAroundPrompt;
  Value::Map payload{{"thinker_result", tensor_of(result)},
                     {"prompt_embeds", tensor_of(prompt)},
                     {"prompt_token_ids", std::move(prompt_ids)},
                     {"thinker_output_token_ids", id_list(request.output_ids)},
                     {"thinker_result_shape", shape_of(result)},
                     {"prompt_embeds_shape", shape_of(prompt)},
                     {"next_stage_prompt_len", talker_prompt},
                     {"finished", true},
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
  values = {};
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
  if (terminal && rows->count == 0 && (known == nullptr || known->rows.count() == 0))
    return bad_output(request, "latent", "has no row in any step, expected [rows, 3584]");

  WholeThinkerStream& stream = states_.get(request.external_id);
  if (rows->count > 0) {
    append_floats(*rows->latent, stream.values);
    stream.rows.add(rows->count);
  }
  return terminal ? payload_of(request, stream) : nullptr;
}

}  // namespace stagewire::chunk::qwen2_5_omni
