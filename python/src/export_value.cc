#include "values.hpp"

namespace stagewire::python {
namespace {

struct Exporter {
  const std::shared_ptr<const void>& owner;
  Framework framework;
  bool writable;

  nb::object operator()(std::monostate) const { return nb::none(); }
  nb::object operator()(bool value) const { return nb::cast(value); }
  nb::object operator()(std::int64_t value) const { return nb::cast(value); }
  nb::object operator()(std::uint64_t value) const { return nb::cast(value); }
  nb::object operator()(double value) const { return nb::cast(value); }
  nb::object operator()(std::string_view value) const { return nb::str(value.data(), value.size()); }
  nb::object operator()(std::span<const std::byte> value) const {
    return nb::bytes(value.data(), value.size());
  }

  nb::object operator()(const TensorView& tensor) const {
    auto array = std::make_shared<Array>();
    array->view = tensor;
    array->size = value_or_raise(byte_size(tensor.dtype, tensor.shape));
    array->owner = owner;
    array->writable = writable;
    return export_tensor(array, framework);
  }

  nb::object operator()(const NdarrayView& view) const {
    auto raw = std::make_shared<Array>();
    raw->view = {.dtype = DType::uint8,
                 .shape = {static_cast<std::int64_t>(view.data.size())},
                 .data = view.data.data()};
    raw->size = view.data.size();
    raw->owner = owner;
    raw->writable = writable;
    nb::object bytes = nb::cast(raw);
    nb::list shape;
    for (const std::int64_t dimension : view.shape) shape.append(dimension);
    static nb::object* known = nullptr;
    return imported(known, "stagewire._arrays", "ndarray")(bytes, view.dtype, nb::tuple(shape));
  }

  nb::object operator()(const Value::List& items) const {
    nb::list result;
    for (const Value& item : items) result.append(std::visit(*this, item.get()));
    return result;
  }

  nb::object operator()(const Value::Map& entries) const {
    nb::dict result;
    for (const auto& [key, value] : entries) {
      result[hashable(std::visit(*this, key.get()))] = std::visit(*this, value.get());
    }
    return result;
  }

  // A list as a key was a tuple when it was sent.
  static nb::object hashable(nb::object key) {
    return nb::isinstance<nb::list>(key) ? nb::object(nb::tuple(key)) : key;
  }
};

}  // namespace

nb::object export_value(const Value& value, const std::shared_ptr<const void>& owner, Framework framework,
                        bool writable) {
  return std::visit(Exporter{owner, framework, writable}, value.get());
}

}  // namespace stagewire::python
