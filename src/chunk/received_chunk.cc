#include "chunk/received_chunk.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "chunk/chunk_flags.hpp"

namespace stagewire::chunk {

Result<Chunk> make_chunk(std::int64_t index, Delivery delivery) {
  if (delivery.kind() != DeliveryKind::object) {
    return base::error(ErrorCode::corrupt, "chunk ", index, " is no encoded object");
  }
  auto payload = delivery.object();
  if (!payload) return payload.error();
  if (payload->get_if<Value::Map>() == nullptr) {
    return base::error(ErrorCode::corrupt, "chunk ", index, " is no map");
  }
  const ChunkFlags flags = read_flags(*payload);
  Chunk chunk;
  chunk.index = index;
  chunk.finished = flags.finished;
  chunk.segment_finished = flags.segment_finished;
  chunk.delivery = std::move(delivery);
  chunk.payload = std::move(*payload);
  return chunk;
}

bool is_empty_step(const Chunk& chunk) {
  if (chunk.finished || chunk.segment_finished) return false;
  const Value* codes = chunk.payload.find("codes");
  const Value* audio = codes == nullptr ? nullptr : codes->find("audio");
  if (audio == nullptr || audio->is_none()) return true;
  if (const auto* list = audio->get_if<Value::List>()) return list->empty();
  const auto* tensor = audio->get_if<TensorView>();
  return tensor != nullptr && std::find(tensor->shape.begin(), tensor->shape.end(), 0) != tensor->shape.end();
}

}  // namespace stagewire::chunk
