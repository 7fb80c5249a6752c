#include <cstring>
#include <map>

#include "array.hpp"

namespace stagewire::python {
namespace {

// A module's attribute, when the process has imported that module. Looked up anew until it has.
nb::object imported_type(const char* module_name, const char* attribute) {
  PyObject* const modules = PyImport_GetModuleDict();
  PyObject* const module = PyDict_GetItemString(modules, module_name);  // borrowed
  if (module == nullptr) return {};
  return nb::getattr(nb::handle(module), attribute, nb::object());
}

// The types are never freed: calls may come while the interpreter ends.
nb::handle torch_tensor_type() {
  static auto* const type = new nb::object();
  if (!type->is_valid()) *type = imported_type("torch", "Tensor");
  return *type;
}

nb::handle numpy_array_type() {
  static auto* const type = new nb::object();
  if (!type->is_valid()) *type = imported_type("numpy", "ndarray");
  return *type;
}

bool is_instance(nb::handle object, nb::handle type) {
  return type.is_valid() && PyObject_IsInstance(object.ptr(), type.ptr()) == 1;
}

std::vector<std::int64_t> integers(nb::handle sequence) {
  std::vector<std::int64_t> result;
  for (const nb::handle item : nb::iter(sequence)) result.push_back(nb::cast<std::int64_t>(item));
  return result;
}

DType named_dtype(nb::handle object, std::string_view name) {
  if (const auto dtype = dtype_from_string(name)) return *dtype;
  throw Raised(Error(ErrorCode::unsupported, std::string(nb::type_name(object.type()).c_str()) +
                                                 " of dtype " + std::string(name) +
                                                 ": it cannot be moved as plain elements"));
}

// torch's dtypes are objects that live as long as torch does.
DType torch_dtype(nb::handle tensor) {
  static auto* const known = new std::map<PyObject*, DType>();
  nb::object dtype = tensor.attr("dtype");
  if (const auto found = known->find(dtype.ptr()); found != known->end()) return found->second;
  const std::string text = nb::cast<std::string>(nb::str(dtype));
  const DType result = named_dtype(tensor, text.starts_with("torch.") ? text.substr(6) : text);
  known->emplace(dtype.release().ptr(), result);
  return result;
}

Imported import_torch(nb::object tensor) {
  if (nb::cast<std::string>(tensor.attr("device").attr("type")) != "cpu") {
    tensor = tensor.attr("detach")().attr("cpu")();  // waits for the copy
  }
  Imported imported;
  imported.view.dtype = torch_dtype(tensor);
  if (imported.view.dtype == DType::complex64 || imported.view.dtype == DType::complex128) {
    tensor = tensor.attr("resolve_conj")();
  }
  if (nb::cast<bool>(tensor.attr("is_neg")())) tensor = tensor.attr("resolve_neg")();
  imported.view.shape = integers(tensor.attr("shape"));
  if (!nb::cast<bool>(tensor.attr("is_contiguous")()))
    imported.view.strides = integers(tensor.attr("stride")());
  // NOLINTNEXTLINE(performance-no-int-to-ptr): this is how torch says where its memory is
  imported.view.data =
      reinterpret_cast<const std::byte*>(nb::cast<std::uintptr_t>(tensor.attr("data_ptr")()));
  imported.owner = std::move(tensor);
  return imported;
}

Imported import_numpy(nb::object array) {
  const nb::object dtype = array.attr("dtype");
  const std::string name = nb::cast<std::string>(dtype.attr("name"));
  if (name == "int4" || name == "uint4") {
    throw Raised(
        Error(ErrorCode::unsupported, "a numpy array of " + name +
                                          " has a byte for each element: pack two into one and put a "
                                          "stagewire.Tensor"));
  }
  if (nb::cast<std::string>(dtype.attr("byteorder")) == ">") {
    array = array.attr("astype")(dtype.attr("newbyteorder")("="));
  }
  Imported imported;
  imported.view.dtype = named_dtype(array, name);
  const auto item_size = nb::cast<std::int64_t>(dtype.attr("itemsize"));
  if (!nb::cast<bool>(array.attr("flags").attr("c_contiguous"))) {
    imported.view.strides = integers(array.attr("strides"));
    bool whole = true;
    for (std::int64_t& stride : imported.view.strides) {
      whole = whole && stride % item_size == 0;
      stride /= item_size;
    }
    if (!whole) {  // a field of records, say
      array = array.attr("copy")();
      imported.view.strides.clear();
    }
  }
  const nb::object description = array.attr("__array_interface__");
  // NOLINTNEXTLINE(performance-no-int-to-ptr): this is how numpy says where its memory is
  imported.view.data = reinterpret_cast<const std::byte*>(nb::cast<std::uintptr_t>(description["data"][0]));
  imported.view.shape = integers(array.attr("shape"));
  imported.owner = std::move(array);
  return imported;
}

}  // namespace

bool is_numpy_array(nb::handle object) {
  return is_instance(object, numpy_array_type());
}

std::optional<Imported> import_tensor(nb::handle object) {
  if (is_instance(object, torch_tensor_type())) return import_torch(nb::borrow(object));
  if (is_numpy_array(object)) return import_numpy(nb::borrow(object));
  if (nb::isinstance<Array>(object)) {
    return Imported{nb::cast<const Array&>(object).view, nb::borrow(object)};
  }
  if (nb::hasattr(object, "__dlpack__") && !PyType_Check(object.ptr())) return import_capsule(object);
  return std::nullopt;
}

}  // namespace stagewire::python
