#include "chunk/received_chunk.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "chunk/chunk_flags.hpp"

namespace stagewire::chunk {

Result<Chunk> make_chunk(std::int64_t index, Delivery delivery, Value memory) {
  if (delivery.kind() != DeliveryKind::object) {
    return base::error(ErrorCode::corrupt, "chunk ", index, " is no encoded object");
  }
  if (Status decoded = decode(delivery.bytes(), memory); !decoded) return decoded.error();
  if (memory.get_if<Value::Map>() == nullptr) {
    return base::error(ErrorCode::corrupt, "chunk ", index, " is no map");
  }
  const ChunkFlags flags = read_flags(memory);
  Chunk chunk;
  chunk.index = index;
  chunk.finished = flags.finished;
  chunk.segment_finished = flags.segment_finished;
  chunk.delivery = std::move(delivery);
  chunk.payload = std::move(memory);
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

namespace {

// Takes the entries of lists and maps, at any depth, from `left`; false when there are more.
bool has_at_most(const Value& value, std::size_t& left) {
  const auto take = [&left](std::size_t count) { return count <= left && (left -= count, true); };
  if (const auto* list = value.get_if<Value::List>()) {
    return take(list->size()) && std::all_of(list->begin(), list->end(),
                                             [&](const Value& item) { return has_at_most(item, left); });
  }
  const auto* map = value.get_if<Value::Map>();
  return map == nullptr ||
         (take(map->size()) && std::all_of(map->begin(), map->end(), [&](const auto& entry) {
            return has_at_most(entry.second, left);
          }));
}

}  // namespace

bool is_small(const Value& payload) {
  std::size_t left = 64;
  return has_at_most(payload, left);
}

}  // namespace stagewire::chunk
