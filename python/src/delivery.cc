#include "delivery.hpp"

#include "values.hpp"

namespace stagewire::python {
namespace {

std::string_view name_of(DeliveryKind kind) {
  switch (kind) {
    case DeliveryKind::bytes:
      return "bytes";
    case DeliveryKind::tensor:
      return "tensor";
    case DeliveryKind::object:
      return "object";
  }
  return "bytes";
}

std::shared_ptr<Array> raw_of(const std::shared_ptr<const Delivery>& delivery) {
  auto array = std::make_shared<Array>();
  const std::span<const std::byte> bytes = delivery->bytes();
  array->view = {
      .dtype = DType::uint8, .shape = {static_cast<std::int64_t>(bytes.size())}, .data = bytes.data()};
  array->size = bytes.size();
  array->owner = delivery;
  return array;
}

std::shared_ptr<Array> tensor_of(const Received& received) {
  const auto& delivery = received.get();
  auto array = raw_of(delivery);
  array->view = value_or_raise(delivery->tensor());
  return array;
}

nb::object object_of(const Received& received, std::string_view tensors) {
  const auto& delivery = received.get();
  const Framework framework = framework_of(tensors);
  const Value value = value_or_raise(without_gil([&] { return delivery->object(); }));
  return export_value(value, delivery, framework);
}

nb::object payload_of(const Received& received, std::string_view tensors) {
  switch (received.get()->kind()) {
    case DeliveryKind::tensor:
      return export_tensor(tensor_of(received), framework_of(tensors));
    case DeliveryKind::object:
      return object_of(received, tensors);
    case DeliveryKind::bytes:
      break;
  }
  const nb::object raw = nb::cast(raw_of(received.get()));
  return nb::steal(PyMemoryView_FromObject(raw.ptr()));
}

void bind_received(nb::module_& module) {
  nb::class_<Received>(
      module, "Delivery", nb::is_weak_referenceable(),
      "A received payload, in place: perhaps in the sender's memory, which it pins.\n\n"
      "Given back when this and every view made of it are gone; release() and `with` drop this one's share.")
      .def_prop_ro(
          "kind", [](const Received& self) { return name_of(self.get()->kind()); },
          "\"bytes\", \"tensor\" or \"object\", as it was put.")
      .def_prop_ro(
          "route", [](const Received& self) { return to_string(self.get()->route()); },
          "How it came: \"eager\", \"lease\", \"read\" or \"write\".")
      .def_prop_ro("nbytes", [](const Received& self) { return self.get()->size(); })
      .def_prop_ro("released", &Received::released)
      .def_prop_ro(
          "raw", [](const Received& self) { return raw_of(self.get()); }, "The bytes, as uint8.")
      .def("tensor", tensor_of, "Of kind \"tensor\": with the dtype and shape that were put.")
      .def("object", object_of, nb::arg("tensors") = "auto", "Of kind \"object\": the decoded object.",
           nb::sig("def object(self, tensors: str = 'auto') -> typing.Any"))
      .def("payload", payload_of, nb::arg("tensors") = "auto",
           "What was put: a memoryview, a tensor or an object. `tensors` says whose tensors: torch, numpy, "
           "stagewire, "
           "or auto, the first of these that has been imported.",
           nb::sig("def payload(self, tensors: str = 'auto') -> typing.Any"))
      .def("release", &Received::release)
      .def(
          "__enter__", [](nb::handle self) { return self; }, nb::sig("def __enter__(self) -> Delivery"))
      .def(
          "__exit__", [](Received& self, const nb::args&) { self.release(); },
          nb::sig("def __exit__(self, *exc: typing.Any) -> None"));
}

void bind_block(nb::module_& module) {
  nb::class_<Block>(module, "PoolBuffer", nb::is_weak_referenceable(),
                    "A block of the connector's pool: fill it, then put it, and nothing is copied.\n\n"
                    "Goes back to the pool when it is dropped, unless it was put.")
      .def_prop_ro("nbytes", [](const Block& self) { return self.bytes().size(); })
      .def_prop_ro("taken", &Block::taken, "It was put, or released.")
      .def_prop_ro("raw", &Block::array, "The bytes, as uint8, to be written into.")
      .def("release", &Block::release);
}

}  // namespace

PoolBuffer Block::take() {
  if (taken()) throw Raised(Error(ErrorCode::closed, "this buffer was put or released"));
  PoolBuffer buffer = std::move(**buffer_);
  buffer_->reset();
  return buffer;
}

void Block::release() {
  // Views keep the block.
  buffer_.reset();
}

std::shared_ptr<Array> Block::array() const {
  if (taken()) throw Raised(Error(ErrorCode::closed, "this buffer was put or released"));
  auto array = std::make_shared<Array>();
  array->view = {
      .dtype = DType::uint8, .shape = {static_cast<std::int64_t>(bytes_.size())}, .data = bytes_.data()};
  array->size = bytes_.size();
  array->owner = buffer_;
  array->writable = true;
  return array;
}

void bind_deliveries(nb::module_& module) {
  bind_received(module);
  bind_block(module);
}

}  // namespace stagewire::python
