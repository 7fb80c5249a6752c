#include "stagewire/payload.hpp"

#include "values.hpp"

namespace stagewire::python {
namespace {

nb::object encode_object(nb::handle object) {
  const HeldValue held = import_value(object);
  const std::size_t size = value_or_raise(without_gil([&] { return encoded_size(held.value); }));
  nb::object bytes = nb::steal(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size)));
  if (!bytes.is_valid()) throw nb::python_error();
  const std::span<std::byte> out(reinterpret_cast<std::byte*>(PyBytes_AS_STRING(bytes.ptr())), size);
  value_or_raise(without_gil([&] { return encode(held.value, out); }));
  return bytes;
}

nb::object decode_object(const nb::object& data, std::string_view tensors) {
  const Framework framework = framework_of(tensors);
  const HeldBuffer held = hold_buffer(data);
  const Value value = value_or_raise(without_gil([&] { return decode(held.bytes); }));
  return export_value(value, held.owner, framework);
}

}  // namespace

void bind_payload(nb::module_& module) {
  module.def(
      "encode", encode_object, nb::arg("obj"),
      "The bytes that vLLM-Omni's OmniSerializer writes for nested dicts, lists, plain values and tensors.",
      nb::sig("def encode(obj: typing.Any) -> bytes"));
  module.def("decode", decode_object, nb::arg("data"), nb::arg("tensors") = "auto",
             "The object that these bytes are of; its tensors are views into `data`, which they keep.",
             nb::sig("def decode(data: typing.Any, tensors: str = 'auto') -> typing.Any"));
}

}  // namespace stagewire::python
