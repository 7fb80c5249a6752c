#include "chunk/processors/model_output.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/text.hpp"
#include "payload/layout.hpp"

namespace stagewire::chunk {
namespace {

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

bool is_dotted(std::string_view key, std::string_view group, std::string_view name) {
  return key.size() == group.size() + 1 + name.size() && key.substr(0, group.size()) == group &&
         key[group.size()] == '.' && key.substr(group.size() + 1) == name;
}

const Value* find_nested(const Value& output, std::string_view group, std::string_view name) {
  const Value* const map = output.find(group);
  const Value* const nested = map != nullptr ? map->find(name) : nullptr;
  const auto* const entries = nested == nullptr ? output.get_if<Value::Map>() : nullptr;
  if (entries == nullptr) return nested;
  const auto dotted = std::find_if(entries->begin(), entries->end(), [&](const auto& entry) {
    const auto* const key = entry.first.template get_if<std::string_view>();
    return key != nullptr && is_dotted(*key, group, name);
  });
  return dotted == entries->end() ? nullptr : &dotted->second;
}

// `key` makes the key's text, for an error only.
template <typename Key>
Result<const TensorView*> as_tensor(const ChunkRequest& request, const Value* value, const Key& key) {
  const TensorView* tensor = nullptr;
  if (value == nullptr || value->is_none()) return tensor;
  tensor = value->get_if<TensorView>();
  if (tensor == nullptr) return bad_output(request, key(), "is no tensor");
  const auto size = payload::tensor_size(*tensor);
  if (!size.ok()) return bad_output(request, key(), "is " + size.error().message());
  return tensor;
}

}  // namespace

Error bad_output(const ChunkRequest& request, std::string_view key, std::string_view what) {
  return base::error(ErrorCode::invalid_argument, "model output of request ", request.external_id, " (",
                     request.internal_id, "): ", key, " ", what);
}

std::string form_text(const TensorView& tensor) {
  return std::string(to_string(tensor.dtype)) + " " + shape_text(tensor.shape);
}

std::string form_text(const RowForm& form) {
  std::string text;
  for (const DType dtype : form.dtypes) text += (text.empty() ? "" : " or ") + std::string(to_string(dtype));
  return text + " [rows, " + std::to_string(form.width) + "]";
}

Status check_map(const ChunkRequest& request, const Value& output) {
  if (output.is_none() || output.get_if<Value::Map>() != nullptr) return {};
  return bad_output(request, "output", "is no map");
}

Result<const TensorView*> find_tensor(const ChunkRequest& request, const Value& output,
                                      std::string_view group, std::string_view name) {
  return as_tensor(request, find_nested(output, group, name), [&] { return base::text(group, ".", name); });
}

Result<const TensorView*> find_tensor(const ChunkRequest& request, const Value& output,
                                      std::string_view key) {
  return as_tensor(request, output.find(key), [&] { return std::string(key); });
}

Result<const TensorView*> find_layer(const ChunkRequest& request, const Value& output, int layer) {
  std::array<char, 24> text{"layer_"};
  const char* const end = std::to_chars(text.data() + 6, text.data() + text.size(), layer).ptr;
  const std::string_view name(text.data(), static_cast<std::size_t>(end - text.data()));

  const Value* const layers = find_nested(output, "hidden_states", "layers");
  const Value* found = layers != nullptr ? layers->find(name.substr(6)) : nullptr;
  const auto* const entries = layers != nullptr ? layers->get_if<Value::Map>() : nullptr;
  for (std::size_t i = 0; entries != nullptr && i < entries->size(); ++i) {
    const auto* const number = (*entries)[i].first.get_if<std::int64_t>();
    if (number != nullptr && *number == layer) found = &(*entries)[i].second;
  }
  if (found == nullptr) found = find_nested(output, "hidden_states", name);
  return as_tensor(request, found, [&] { return base::text("hidden_states.layers[", layer, "]"); });
}

Result<std::int64_t> count_rows(const ChunkRequest& request, std::string_view key, const TensorView* tensor,
                                const RowForm& form, std::int64_t most) {
  if (tensor == nullptr) return bad_output(request, key, "is missing, expected " + form_text(form));
  const bool fits = tensor->shape.size() == 2 && tensor->shape[1] == form.width &&
                    std::find(form.dtypes.begin(), form.dtypes.end(), tensor->dtype) != form.dtypes.end();
  if (!fits) return bad_output(request, key, "is " + form_text(*tensor) + ", expected " + form_text(form));
  if (tensor->shape[0] > most) {
    return bad_output(request, key,
                      base::text("is ", form_text(*tensor), ", expected ", form_text(form), " with at most ",
                                 most, " rows in this step"));
  }
  return tensor->shape[0];
}

}  // namespace stagewire::chunk
