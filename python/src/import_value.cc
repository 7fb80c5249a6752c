#include <string>

#include "values.hpp"

namespace stagewire::python {
namespace {

constexpr std::size_t kDeepest = 256;  // as PayloadLimits has it

class Importer {
 public:
  explicit Importer(std::vector<nb::object>& held) : held_(held) {}

  Value import(nb::handle object, std::size_t depth) {
    PyObject* const it = object.ptr();
    if (it == Py_None) return {};
    if (PyBool_Check(it)) return Value(it == Py_True);
    if (PyLong_Check(it)) return integer(it);
    if (PyFloat_Check(it)) return Value(PyFloat_AS_DOUBLE(it));
    if (PyUnicode_Check(it)) return Value(text(object));
    if (PyBytes_Check(it)) return Value(bytes(object));
    if (depth == kDeepest) {
      throw Raised(
          Error(ErrorCode::invalid_argument,
                "a value nested deeper than " + std::to_string(kDeepest) + " levels, or containing itself"));
    }
    if (PyDict_Check(it)) return map(object, depth);
    if (PyList_Check(it) || PyTuple_Check(it)) return list(object, depth);
    return other(object);
  }

 private:
  static Value integer(PyObject* number) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (overflow == 0) {
      if (value == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
      return Value(static_cast<std::int64_t>(value));
    }
    const unsigned long long large = PyLong_AsUnsignedLongLong(number);
    if (PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      throw Raised(Error(ErrorCode::invalid_argument, "an integer that does not fit into 64 bits"));
    }
    return Value(static_cast<std::uint64_t>(large));
  }

  std::string_view text(nb::handle string) {
    Py_ssize_t size = 0;
    const char* const data = PyUnicode_AsUTF8AndSize(string.ptr(), &size);
    if (data == nullptr) throw nb::python_error();
    held_.push_back(nb::borrow(string));
    return {data, static_cast<std::size_t>(size)};
  }

  std::span<const std::byte> bytes(nb::handle object) {
    held_.push_back(nb::borrow(object));
    return {reinterpret_cast<const std::byte*>(PyBytes_AS_STRING(object.ptr())),
            static_cast<std::size_t>(PyBytes_GET_SIZE(object.ptr()))};
  }

  Value map(nb::handle object, std::size_t depth) {
    Value::Map entries;
    entries.reserve(static_cast<std::size_t>(PyDict_Size(object.ptr())));
    Py_ssize_t position = 0;
    PyObject* key = nullptr;
    PyObject* value = nullptr;
    const nb::object alive = nb::borrow(object);
    while (PyDict_Next(object.ptr(), &position, &key, &value) != 0) {
      const nb::object kept_key = nb::borrow(key), kept_value = nb::borrow(value);
      Value first = import(kept_key, depth + 1);
      entries.emplace_back(std::move(first), import(kept_value, depth + 1));
    }
    return Value(std::move(entries));
  }

  Value list(nb::handle object, std::size_t depth) {
    Value::List items;
    for (const nb::handle item : nb::iter(object)) items.push_back(import(item, depth + 1));
    return Value(std::move(items));
  }

  Value other(nb::handle object) {
    if (is_numpy_array(object) && !is_foreign_dtype(object)) return numpy(nb::borrow(object));
    if (auto tensor = import_tensor(object)) {
      held_.push_back(std::move(tensor->owner));
      return Value(std::move(tensor->view));
    }
    if (PyObject_CheckBuffer(object.ptr()) != 0) {
      const nb::object copy = nb::steal(PyBytes_FromObject(object.ptr()));
      if (!copy.is_valid()) throw nb::python_error();
      return Value(bytes(copy));
    }
    const std::string type = nb::cast<std::string>(nb::str(object.type()));
    throw nb::type_error(
        ("a payload has None, bool, int, float, str, bytes, list, tuple, dict, tensors and arrays, "
         "not " +
         type)
            .c_str());
  }

  // Of ml_dtypes: what numpy calls them says nothing on the other side, so they travel as tensors.
  static bool is_foreign_dtype(nb::handle array) {
    return nb::cast<int>(array.attr("dtype").attr("isbuiltin")) == 2;
  }

  Value numpy(nb::object array) {
    if (!nb::cast<bool>(array.attr("flags").attr("c_contiguous")))
      array = array.attr("copy")(nb::arg("order") = "C");
    NdarrayView view;
    view.dtype = nb::cast<std::string>(array.attr("dtype").attr("str"));
    for (const nb::handle dimension : nb::iter(array.attr("shape"))) {
      view.shape.push_back(nb::cast<std::int64_t>(dimension));
    }
    const nb::object description = array.attr("__array_interface__");
    // NOLINTNEXTLINE(performance-no-int-to-ptr): this is how numpy says where its memory is
    view.data = {reinterpret_cast<const std::byte*>(nb::cast<std::uintptr_t>(description["data"][0])),
                 nb::cast<std::size_t>(array.attr("nbytes"))};
    held_.push_back(std::move(array));
    return Value(std::move(view));
  }

  std::vector<nb::object>& held_;
};

}  // namespace

HeldValue import_value(nb::handle object) {
  HeldValue result;
  result.value = Importer(result.held).import(object, 0);
  return result;
}

}  // namespace stagewire::python
