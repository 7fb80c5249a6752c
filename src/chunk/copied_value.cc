#include "chunk/copied_value.hpp"

#include <cstring>
#include <utility>

#include "payload/layout.hpp"

namespace stagewire::chunk {
namespace {

constexpr std::size_t kAlignment = 16;
constexpr std::size_t kUsualSize = 64 << 10;

std::size_t aligned(std::size_t size) {
  return (size + kAlignment - 1) / kAlignment * kAlignment;
}

// Adds what the value's strings, bytes and tensors take.
Status add_size(const Value& value, std::size_t& size) {
  if (const auto* text = value.get_if<std::string_view>()) {
    size += aligned(text->size());
  } else if (const auto* bytes = value.get_if<std::span<const std::byte>>()) {
    size += aligned(bytes->size());
  } else if (const auto* array = value.get_if<NdarrayView>()) {
    size += aligned(array->data.size());
  } else if (const auto* tensor = value.get_if<TensorView>()) {
    const auto bytes_of_tensor = payload::tensor_size(*tensor);
    if (!bytes_of_tensor) return bytes_of_tensor.error();
    size += aligned(*bytes_of_tensor);
  } else if (const auto* list = value.get_if<Value::List>()) {
    for (const Value& item : *list) {
      if (Status added = add_size(item, size); !added) return added;
    }
  } else if (const auto* map = value.get_if<Value::Map>()) {
    for (const auto& [key, entry] : *map) {
      if (Status added = add_size(key, size); !added) return added;
      if (Status added = add_size(entry, size); !added) return added;
    }
  }
  return {};
}

// Lets a value's views point to copies of what they point to, at `place`, which moves on.
class Mover {
 public:
  explicit Mover(std::byte* place) : place_(place) {}

  void move(Value& value) {
    if (auto* text = value.get_if<std::string_view>()) {
      *text = {reinterpret_cast<const char*>(copy(text->data(), text->size())), text->size()};
    } else if (auto* bytes = value.get_if<std::span<const std::byte>>()) {
      *bytes = {copy(bytes->data(), bytes->size()), bytes->size()};
    } else if (auto* array = value.get_if<NdarrayView>()) {
      array->data = {copy(array->data.data(), array->data.size()), array->data.size()};
    } else if (auto* tensor = value.get_if<TensorView>()) {
      move(*tensor);
    } else if (auto* list = value.get_if<Value::List>()) {
      for (Value& item : *list) move(item);
    } else if (auto* map = value.get_if<Value::Map>()) {
      for (auto& [key, entry] : *map) {
        move(key);
        move(entry);
      }
    }
  }

 private:
  void move(TensorView& tensor) {
    const auto size = static_cast<std::size_t>(*payload::tensor_size(tensor));
    payload::copy_row_major(tensor, size, place_);
    tensor.strides.clear();
    tensor.data = take(size);
  }
  std::byte* copy(const void* from, std::size_t size) {
    if (size > 0) std::memcpy(place_, from, size);
    return take(size);
  }
  std::byte* take(std::size_t size) { return std::exchange(place_, place_ + aligned(size)); }

  std::byte* place_;
};

}  // namespace

Status CopiedValue::assign(const Value& value) {
  std::size_t size = 0;
  if (Status counted = add_size(value, size); !counted) return counted;
  if (size > capacity_) {
    bytes_ = std::make_unique_for_overwrite<std::byte[]>(size);
    capacity_ = size;
  }
  size_ = size;
  value_ = value;
  Mover(bytes_.get()).move(value_);
  return {};
}

void CopiedValue::shrink() {
  if (capacity_ <= kUsualSize) return;
  value_ = Value();
  bytes_.reset();
  capacity_ = 0;
}

}  // namespace stagewire::chunk
