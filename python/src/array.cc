#include "array.hpp"

namespace stagewire::python {
namespace {

nb::handle torch() {
  static nb::object* known = nullptr;
  return imported(known, "torch");
}

nb::handle numpy() {
  static nb::object* known = nullptr;
  return imported(known, "numpy");
}

nb::handle ml_dtypes() {
  static nb::object* known = nullptr;
  return imported(known, "ml_dtypes");
}

bool is_imported(const char* name) {
  return PyDict_GetItemString(PyImport_GetModuleDict(), name) != nullptr;
}

nb::object as_object(const std::shared_ptr<Array>& array) {
  return nb::cast(array);
}

std::string dtype_name(const Array& array) {
  return std::string(to_string(array.view.dtype));
}

nb::object shape_of(const Array& array) {
  nb::list shape;
  for (const std::int64_t dimension : array.view.shape) shape.append(dimension);
  return nb::tuple(shape);
}

// numpy's dtype of this name, from ml_dtypes when numpy itself has none; invalid when nobody has.
nb::object numpy_dtype(DType dtype) {
  const std::string name(to_string(dtype));
  if (traits_of(dtype).format != nullptr) return numpy().attr("dtype")(name);
  if (dtype == DType::int4 || ml_dtypes().is_none() || !nb::hasattr(ml_dtypes(), name.c_str())) return {};
  return numpy().attr("dtype")(ml_dtypes().attr(name.c_str()));
}

nb::object to_numpy(const std::shared_ptr<Array>& array) {
  if (numpy().is_none()) return as_object(array);
  const nb::object dtype = numpy_dtype(array->view.dtype);
  if (!dtype.is_valid()) return as_object(array);
  if (array->size == 0) return numpy().attr("empty")(shape_of(*array), dtype);
  const nb::object raw = numpy().attr("frombuffer")(nb::cast(array).attr("raw"), "uint8");
  return raw.attr("view")(dtype).attr("reshape")(shape_of(*array));
}

// torch's dtype of this name; invalid when this torch is too old for it.
nb::object torch_dtype(DType dtype) {
  return nb::getattr(torch(), std::string(to_string(dtype)).c_str(), nb::object());
}

// What DLPack could carry when torch learned it.
bool torch_takes(DType dtype) {
  const std::uint8_t code = traits_of(dtype).dlpack.code;
  const bool old_unsigned = code != 1 || dtype == DType::uint8;
  return code <= 5 && old_unsigned && dtype != DType::int4;
}

nb::object to_torch(const std::shared_ptr<Array>& array) {
  if (torch().is_none()) return as_object(array);
  const DType dtype = array->view.dtype;
  const nb::object own = torch_dtype(dtype);
  if (!own.is_valid()) return to_numpy(array);
  if (array->size == 0) return torch().attr("empty")(shape_of(*array), nb::arg("dtype") = own);
  static nb::object* known = nullptr;
  const nb::handle from_dlpack = imported(known, "torch.utils.dlpack", "from_dlpack");
  if (torch_takes(dtype)) return from_dlpack(capsule_of(array, false));
  return from_dlpack(raw_capsule(array)).attr("view")(own).attr("reshape")(shape_of(*array));
}

bool wants_versioned(nb::handle max_version) {
  return !max_version.is_none() && nb::cast<int>(max_version[0]) >= 1;
}

void release_array_buffer(PyObject*, Py_buffer* view) {
  delete[] static_cast<Py_ssize_t*>(view->internal);
}

PyType_Slot array_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_array_buffer)},
                             {Py_bf_releasebuffer, reinterpret_cast<void*>(release_array_buffer)},
                             {0, nullptr}};

// A tensor over bytes-like memory, which is not copied.
std::shared_ptr<Array> array_over(const nb::object& data, std::string_view dtype,
                                  std::vector<std::int64_t> shape) {
  const auto known = dtype_from_string(dtype);
  if (!known) throw Raised(Error(ErrorCode::invalid_argument, "there is no dtype " + std::string(dtype)));
  const std::uint64_t size = value_or_raise(byte_size(*known, shape));
  HeldBuffer held = hold_buffer(data);
  if (held.bytes.size() != size) {
    throw Raised(Error(ErrorCode::invalid_argument, "this dtype and shape take " + std::to_string(size) +
                                                        " bytes, there are " +
                                                        std::to_string(held.bytes.size())));
  }
  auto array = std::make_shared<Array>();
  array->view = {.dtype = *known, .shape = std::move(shape), .data = held.bytes.data()};
  array->size = size;
  array->writable = held.writable;
  array->owner = std::move(held.owner);
  return array;
}

}  // namespace

nb::handle imported(nb::object*& known, const char* module, const char* attribute) {
  if (known == nullptr) {
    nb::object found = nb::none();
    try {
      found = nb::module_::import_(module);
      if (attribute != nullptr) found = found.attr(attribute);
    } catch (nb::python_error& error) {
      if (!error.matches(PyExc_ImportError)) throw;
    }
    if (known == nullptr) known = new nb::object(std::move(found));
  }
  return *known;
}

HeldBuffer hold_buffer(const nb::object& object) {
  auto buffer = std::make_unique<Py_buffer>();
  if (PyObject_GetBuffer(object.ptr(), buffer.get(), PyBUF_SIMPLE) != 0) throw nb::python_error();
  HeldBuffer result;
  result.bytes = {static_cast<std::byte*>(buffer->buf), static_cast<std::size_t>(buffer->len)};
  result.writable = buffer->readonly == 0;
  result.owner = std::shared_ptr<const void>(buffer.release(), [](Py_buffer* held) {
    if (nb::is_alive()) {
      const nb::gil_scoped_acquire acquired;
      PyBuffer_Release(held);
    }
    delete held;
  });
  return result;
}

int fill_bytes(PyObject* self, Py_buffer* view, int flags, const std::byte* data, std::uint64_t size,
               bool writable) {
  return PyBuffer_FillInfo(view, self, const_cast<std::byte*>(data), static_cast<Py_ssize_t>(size),
                           writable ? 0 : 1, flags);
}

int get_array_buffer(PyObject* self, Py_buffer* view, int flags) {
  const Array& array = *nb::cast<std::shared_ptr<Array>>(nb::handle(self));
  const char* const format = traits_of(array.view.dtype).format;
  const int asked = fill_bytes(self, view, flags, array.view.data, array.size, array.writable);
  if (asked != 0 || format == nullptr || (flags & PyBUF_ND) == 0) return asked;
  const std::size_t dimensions = array.view.shape.size();
  auto* const numbers = new Py_ssize_t[2 * dimensions + 1];
  Py_ssize_t stride = static_cast<Py_ssize_t>(value_or_raise(byte_size(array.view.dtype, {})));
  view->itemsize = stride;
  for (std::size_t d = dimensions; d-- > 0;) {
    numbers[d] = static_cast<Py_ssize_t>(array.view.shape[d]);
    numbers[dimensions + d] = stride;
    stride *= numbers[d];
  }
  if ((flags & PyBUF_FORMAT) != 0) view->format = const_cast<char*>(format);
  view->ndim = static_cast<int>(dimensions);
  view->shape = numbers;
  view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? numbers + dimensions : nullptr;
  view->internal = numbers;
  return 0;
}

Framework framework_of(std::string_view name) {
  if (name == "torch") return Framework::torch;
  if (name == "numpy") return Framework::numpy;
  if (name == "stagewire") return Framework::stagewire;
  if (name == "auto") {
    if (is_imported("torch")) return Framework::torch;
    return is_imported("numpy") ? Framework::numpy : Framework::stagewire;
  }
  throw Raised(Error(ErrorCode::invalid_argument,
                     "tensors: " + std::string(name) + " is none of auto, torch, numpy, stagewire"));
}

nb::object export_tensor(const std::shared_ptr<Array>& array, Framework framework) {
  switch (framework) {
    case Framework::torch:
      return to_torch(array);
    case Framework::numpy:
      return to_numpy(array);
    case Framework::stagewire:
      return as_object(array);
  }
  return as_object(array);
}

void bind_arrays(nb::module_& module) {
  nb::class_<Array>(
      module, "Tensor", nb::type_slots(array_slots), nb::is_weak_referenceable(),
      "Bytes with a dtype and a shape, in place: a received tensor, or one over memory of the caller's.\n\n"
      "Speaks DLPack and the buffer protocol, so torch.from_dlpack() and numpy.asarray() make views of it\n"
      "without a copy. Every view keeps the memory. int4 is packed, two elements in a byte.")
      .def(nb::new_([](const nb::object& data, std::string_view dtype, std::vector<std::int64_t> shape) {
             return array_over(data, dtype, std::move(shape));
           }),
           nb::arg("data"), nb::arg("dtype"), nb::arg("shape"),
           "Over bytes-like memory, which is kept and not copied.")
      .def_prop_ro("dtype", dtype_name, "The dtype's name as torch has it: \"bfloat16\".")
      .def_prop_ro("shape", shape_of, nb::sig("def shape(self) -> tuple[int, ...]"))
      .def_prop_ro("nbytes", [](const Array& array) { return array.size; })
      .def_prop_ro("readonly", [](const Array& array) { return !array.writable; })
      .def_prop_ro(
          "raw",
          [](nb::handle self) {
            const auto array = nb::cast<std::shared_ptr<Array>>(self);
            auto raw = std::make_shared<Array>(*array);
            raw->view.dtype = DType::uint8;
            raw->view.shape = {static_cast<std::int64_t>(array->size)};
            return raw;
          },
          "The same bytes as uint8, in one dimension.")
      .def(
          "torch", [](const std::shared_ptr<Array>& self) { return to_torch(self); },
          "A torch tensor over the same memory. torch knows no read-only memory: do not write into it.",
          nb::sig("def torch(self) -> typing.Any"))
      .def(
          "numpy", [](const std::shared_ptr<Array>& self) { return to_numpy(self); },
          "A numpy array over the same memory.", nb::sig("def numpy(self) -> typing.Any"))
      .def(
          "tobytes",
          [](const Array& array) { return nb::bytes(array.view.data, static_cast<std::size_t>(array.size)); },
          "A copy of the bytes.")
      .def(
          "__dlpack__",
          [](const std::shared_ptr<Array>& self, nb::handle, nb::handle max_version, nb::handle, nb::handle) {
            return capsule_of(self, wants_versioned(max_version));
          },
          nb::kw_only(), nb::arg("stream").none() = nb::none(), nb::arg("max_version").none() = nb::none(),
          nb::arg("dl_device").none() = nb::none(), nb::arg("copy").none() = nb::none())
      .def("__dlpack_device__", [](const Array&) { return nb::make_tuple(dlpack::kCpu, 0); });
}

}  // namespace stagewire::python
