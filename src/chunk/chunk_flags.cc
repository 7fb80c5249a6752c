#include "chunk/chunk_flags.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "payload/layout.hpp"

namespace stagewire::chunk {
namespace {

constexpr std::array<std::byte, 2> kBooleans{std::byte{0}, std::byte{1}};

// The payload structure's fields that follow meta on the wire.
constexpr std::array<std::string_view, 9> kAfterMeta{"latent",     "generated_len",   "model_outputs",
                                                     "mtp_inputs", "speaker",         "language",
                                                     "request_id", "past_key_values", "kv_metadata"};

Value flag_tensor(bool flag) {
  TensorView tensor;
  tensor.dtype = DType::boolean;
  tensor.data = &kBooleans[flag ? 1 : 0];
  return Value(std::move(tensor));
}

bool has_name(const Value& key, std::string_view name) {
  const auto* text = key.get_if<std::string_view>();
  return text != nullptr && *text == name;
}

Value::Map::iterator find(Value::Map& map, std::string_view name) {
  return std::find_if(map.begin(), map.end(), [&](const auto& entry) { return has_name(entry.first, name); });
}

// Filled afterwards: g++ 12 takes parts of an entry that is moved into its place for uninitialised when it
// optimises fully.
Value::Map::iterator insert(Value::Map& map, Value::Map::iterator place, std::string_view name, Value value) {
  place = map.emplace(place);
  place->first = Value(name);
  place->second = std::move(value);
  return place;
}

void set_flag(Value::Map& meta, std::ptrdiff_t place, std::string_view name, bool flag) {
  const auto known = find(meta, name);
  if (known != meta.end()) {
    known->second = flag_tensor(flag);
  } else {
    insert(meta, meta.begin() + std::min(place, std::ssize(meta)), name, flag_tensor(flag));
  }
}

}  // namespace

Status set_flags(Value& payload, ChunkFlags flags) {
  auto* fields = payload.get_if<Value::Map>();
  if (fields == nullptr) return base::error(ErrorCode::invalid_argument, "a chunk's payload is no map");
  auto meta = find(*fields, "meta");
  if (meta == fields->end()) {
    const auto follows = std::find_if(fields->begin(), fields->end(), [](const auto& entry) {
      return std::any_of(kAfterMeta.begin(), kAfterMeta.end(),
                         [&](std::string_view name) { return has_name(entry.first, name); });
    });
    meta = insert(*fields, follows, "meta", Value(Value::Map{}));
  }
  auto* entries = meta->second.get_if<Value::Map>();
  if (entries == nullptr) {
    return base::error(ErrorCode::invalid_argument, "the meta of a chunk's payload is no map");
  }
  set_flag(*entries, 0, "finished", flags.finished);
  set_flag(*entries, 1, "is_segment_finished", flags.segment_finished);
  return {};
}

bool is_set(const Value* flag) {
  if (flag == nullptr) return false;
  if (const auto* boolean = flag->get_if<bool>()) return *boolean;
  if (const auto* number = flag->get_if<std::int64_t>()) return *number != 0;
  const auto* tensor = flag->get_if<TensorView>();
  if (tensor == nullptr) return false;
  const auto size = payload::tensor_size(*tensor);
  const auto one = byte_size(tensor->dtype, {});
  if (!size || !one || *size != *one) return false;
  return std::any_of(tensor->data, tensor->data + *size, [](std::byte byte) { return byte != std::byte{0}; });
}

ChunkFlags read_flags(const Value& payload) {
  const Value* meta = payload.find("meta");
  if (meta == nullptr) return {};
  return {is_set(meta->find("finished")), is_set(meta->find("is_segment_finished"))};
}

}  // namespace stagewire::chunk
