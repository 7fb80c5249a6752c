// Error codes as exceptions: stagewire/errors.py has one class for each, by the code's name.
#include "binding.hpp"

namespace stagewire::python {
namespace {

// Never freed: an exception may still be made while the interpreter ends.
nb::dict& exceptions() {
  static auto* const table = new nb::dict();
  return *table;
}

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Raised& raised) {
    const std::string code(to_string(raised.error().code()));
    const nb::object type = exceptions()[code.c_str()];
    PyErr_SetObject(type.ptr(), nb::str(raised.error().message().c_str()).ptr());
  }
}

}  // namespace

void bind_errors(nb::module_& module) {
  nb::register_exception_translator(translate);
  nb::list codes;
  for (std::uint32_t code = 1; code <= static_cast<std::uint32_t>(ErrorCode::failed); ++code) {
    const std::string_view name = to_string(static_cast<ErrorCode>(code));
    codes.append(nb::str(name.data(), name.size()));
  }
  module.attr("error_codes") = nb::tuple(codes);
  module.def(
      "set_exceptions", [](const nb::dict& table) { exceptions() = table; }, nb::arg("table"),
      "Names the exception class of each error code.");
}

}  // namespace stagewire::python
