#include "chunk/apply_chunk.hpp"

#include <cstring>

#include "base/text.hpp"
#include "chunk/chunk_flags.hpp"
#include "payload/layout.hpp"

namespace stagewire::chunk {
namespace {

template <typename T>
void append_numbers(const TensorView& tensor, std::size_t size, std::vector<std::int64_t>& ids) {
  // The bytes may lie unaligned.
  for (std::size_t i = 0; i + sizeof(T) <= size; i += sizeof(T)) {
    T number{};
    std::memcpy(&number, tensor.data + i, sizeof(T));
    ids.push_back(static_cast<std::int64_t>(number));
  }
}

Status ids_of(const TensorView& tensor, std::vector<std::int64_t>& ids) {
  const auto size = payload::tensor_size(tensor);
  if (!size) return size.error();
  const auto bytes = static_cast<std::size_t>(*size);
  if (tensor.shape.size() >= 2) {
    // It stays in the additional information; the prompt only has to be there.
    if (bytes > 0) ids.push_back(0);
  } else if (tensor.dtype == DType::int64) {
    append_numbers<std::int64_t>(tensor, bytes, ids);
  } else if (tensor.dtype == DType::int32) {
    append_numbers<std::int32_t>(tensor, bytes, ids);
  } else {
    return base::error(ErrorCode::corrupt, "codes.audio is a tensor of ", to_string(tensor.dtype),
                       ", not of int64 or int32");
  }
  return {};
}

Status ids_of(const Value& audio, std::vector<std::int64_t>& ids) {
  if (audio.is_none()) return {};
  if (const auto* tensor = audio.get_if<TensorView>()) return ids_of(*tensor, ids);
  const auto* list = audio.get_if<Value::List>();
  if (list == nullptr) return Error(ErrorCode::corrupt, "codes.audio is neither a tensor nor a list");
  for (const Value& item : *list) {
    const auto* number = item.get_if<std::int64_t>();
    if (number == nullptr) return Error(ErrorCode::corrupt, "codes.audio has an item that is no integer");
    ids.push_back(*number);
  }
  return {};
}

Status apply_to_generation(StageRequest& request, const Chunk& chunk) {
  request.prompt_ids.clear();
  const Value* codes = chunk.payload.find("codes");
  const Value* audio = codes == nullptr ? nullptr : codes->find("audio");
  if (audio != nullptr) {
    if (Status read = ids_of(*audio, request.prompt_ids); !read) return read;
  }
  // A segment that ends with nothing new has to pass through the stage all the same.
  if (request.prompt_ids.empty() && chunk.segment_finished) request.prompt_ids.push_back(0);
  request.computed_tokens = 0;
  return request.input.merge(chunk.payload);
}

// How many rows the new segment's prompt has; nullopt when the chunk brings none.
std::optional<std::size_t> streaming_prompt_size(const Value& payload) {
  const Value* meta = payload.find("meta");
  const Value* told = meta == nullptr ? nullptr : meta->find("next_stage_prompt_len");
  const auto* count = told == nullptr ? nullptr : told->get_if<std::int64_t>();
  if (count != nullptr && *count >= 0 && *count <= (1 << 24)) return static_cast<std::size_t>(*count);
  const Value* embed = payload.find("embed");
  const Value* prefill = embed == nullptr ? nullptr : embed->find("prefill");
  const auto* rows = prefill == nullptr ? nullptr : prefill->get_if<TensorView>();
  if (rows == nullptr || rows->shape.empty()) return std::nullopt;
  return static_cast<std::size_t>(rows->shape.front());
}

void apply_to_autoregressive(StageRequest& request, Chunk chunk) {
  const Value* meta = chunk.payload.find("meta");
  const bool replace = meta != nullptr && is_set(meta->find("replace_streaming_prompt"));
  if (request.resumable && (chunk.index > 0 || replace)) {
    if (const auto size = streaming_prompt_size(chunk.payload)) {
      // Placeholders, as when the request was submitted: the rows are in the additional information.
      request.prompt_ids.assign(*size, 0);
      request.computed_tokens = 0;
    }
  }
  request.input.replace(std::move(chunk));
}

}  // namespace

Status apply_chunk(StageRequest& request, Chunk chunk, ChunkMode mode) {
  const bool finished = chunk.finished;
  request.received = request.received || finished;
  request.segment_received = chunk.segment_finished;
  if (mode == ChunkMode::generation) {
    if (Status applied = apply_to_generation(request, chunk); !applied) return applied;
  } else {
    apply_to_autoregressive(request, std::move(chunk));
  }
  if (finished) request.resumable = false;
  request.chunk_ready = true;
  return {};
}

}  // namespace stagewire::chunk
