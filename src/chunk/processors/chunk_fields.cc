#include "chunk/processors/chunk_fields.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "payload/layout.hpp"

namespace stagewire::chunk {
namespace {

std::string key_text(std::string_view group, std::string_view name) {
  return group.empty() ? std::string(name) : base::text(group, ".", name);
}

}  // namespace

Error ChunkFields::wrong(std::string_view key, std::string_view what) const {
  return base::error(ErrorCode::corrupt, "chunk ", index_, " of request ", request_, ": ", key, " ", what);
}

Result<bool> ChunkFields::flag(std::string_view name) const {
  const Value* const value = find("meta", name);
  if (value == nullptr || value->is_none()) return false;
  if (const auto* const boolean = value->get_if<bool>()) return *boolean;
  const auto* const tensor = value->get_if<TensorView>();
  const auto size = tensor != nullptr ? payload::tensor_size(*tensor) : std::uint64_t{0};
  if (tensor == nullptr || tensor->dtype != DType::boolean || !size.ok() || *size != 1)
    return wrong(key_text("meta", name), "is neither a boolean nor a bool tensor of one element");
  return *tensor->data != std::byte{0};
}

Result<ChunkEnd> ChunkFields::end() const {
  const auto finished = flag("finished");
  if (!finished.ok()) return finished.error();
  const auto segment_finished = flag("is_segment_finished");
  if (!segment_finished.ok()) return segment_finished.error();
  return ChunkEnd{*finished, *segment_finished};
}

const Value* ChunkFields::find(std::string_view group, std::string_view name) const {
  const Value* const map = group.empty() ? &chunk_ : chunk_.find(group);
  return map != nullptr ? map->find(name) : nullptr;
}

Result<const TensorView*> ChunkFields::tensor(std::string_view group, std::string_view name) const {
  const Value* const value = find(group, name);
  if (value == nullptr) return wrong(key_text(group, name), "is missing");
  const auto* const tensor = value->get_if<TensorView>();
  if (tensor == nullptr || !tensor->strides.empty() || !payload::tensor_size(*tensor).ok())
    return wrong(key_text(group, name), "is no contiguous tensor");
  return tensor;
}

Result<const TensorView*> ChunkFields::rows(std::string_view group, std::string_view name,
                                            const RowForm& form, std::int64_t least,
                                            std::int64_t most) const {
  const auto found = tensor(group, name);
  if (!found.ok()) return found;
  const TensorView& rows = **found;
  const bool fits = rows.shape.size() == 2 && rows.shape[1] == form.width && rows.shape[0] >= least &&
                    rows.shape[0] <= most &&
                    std::find(form.dtypes.begin(), form.dtypes.end(), rows.dtype) != form.dtypes.end();
  if (fits) return found;
  return wrong(key_text(group, name), base::text("is ", form_text(rows), ", expected ", form_text(form),
                                                 " with ", least, " to ", most, " rows"));
}

Status ChunkFields::exactly(std::string_view group, std::string_view name, DType dtype,
                            std::initializer_list<std::int64_t> shape) const {
  const auto found = tensor(group, name);
  if (!found.ok()) return found.error();
  const TensorView& made = **found;
  if (made.dtype == dtype && std::equal(made.shape.begin(), made.shape.end(), shape.begin(), shape.end()))
    return {};
  return wrong(key_text(group, name),
               base::text("is ", form_text(made), ", expected ", form_text({dtype, shape, nullptr, {}})));
}

Result<const Value::List*> ChunkFields::integers(std::string_view group, std::string_view name) const {
  const Value* const value = find(group, name);
  const auto* const list = value != nullptr ? value->get_if<Value::List>() : nullptr;
  const bool fits = list != nullptr && std::all_of(list->begin(), list->end(), [](const Value& item) {
                      return item.get_if<std::int64_t>() != nullptr;
                    });
  if (!fits) return wrong(key_text(group, name), "is missing or no list of integers");
  return list;
}

Result<std::int64_t> ChunkFields::integer(std::string_view group, std::string_view name,
                                          std::int64_t most) const {
  const Value* const value = find(group, name);
  const auto* const number = value != nullptr ? value->get_if<std::int64_t>() : nullptr;
  if (number == nullptr) return wrong(key_text(group, name), "is missing or no integer");
  if (*number < 0 || *number > most)
    return wrong(key_text(group, name), base::text("is ", *number, ", expected 0 to ", most));
  return *number;
}

}  // namespace stagewire::chunk
