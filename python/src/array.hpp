// Tensors in and out of Python without a copy: torch, numpy and whatever speaks DLPack or the buffer
// protocol. Neither torch nor numpy is imported here; they are known when the caller has imported them.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "binding.hpp"
#include "dlpack.hpp"
#include "stagewire/payload.hpp"

namespace stagewire::python {

/// What Python sees as stagewire.Tensor: contiguous bytes with a dtype and a shape, and what keeps them in
/// place. Views that others make of it share `owner`, so the memory is given back once, after the last of
/// them.
struct Array {
  TensorView view;
  std::uint64_t size = 0;  ///< bytes
  std::shared_ptr<const void> owner;
  bool writable = false;
};

/// A tensor that somebody else owns; `owner` keeps its memory. Touched with the GIL only.
struct Imported {
  TensorView view;
  nb::object owner;
};

/// nullopt: not a tensor. Raises for a tensor that cannot be moved as it is. One on another device is copied
/// to the host first.
std::optional<Imported> import_tensor(nb::handle object);

/// What a dotted name stands for, imported on first use and never freed, because calls may come while the
/// interpreter ends; none when it is not installed. `known` is static and starts as null. Not initialised by
/// C++: an import lets other threads run, and they would wait for it with the GIL.
nb::handle imported(nb::object*& known, const char* module, const char* attribute = nullptr);

/// The object is a numpy array (and numpy has been imported).
bool is_numpy_array(nb::handle object);

/// Which library received tensors belong to: "torch", "numpy", "stagewire", or "auto" for the first of these
/// that the process has imported.
enum class Framework { stagewire, numpy, torch };
Framework framework_of(std::string_view name);

/// A view of the framework on the array. A dtype that the framework lacks comes as what has it: numpy with
/// ml_dtypes, or stagewire.Tensor.
nb::object export_tensor(const std::shared_ptr<Array>& array, Framework framework);

/// How other conventions name a dtype.
struct DTypeTraits {
  DType dtype;
  dlpack::DataType dlpack;
  const char* format;  ///< the buffer protocol's; null = it has none, bytes are shown
};
const DTypeTraits& traits_of(DType dtype);
std::optional<DType> dtype_of(dlpack::DataType type);

/// The array as a DLPack capsule of uint8, one-dimensional: for frameworks whose DLPack lacks the dtype.
nb::object raw_capsule(const std::shared_ptr<Array>& array);
nb::object capsule_of(const std::shared_ptr<Array>& array, bool versioned);
/// Of a capsule that `object.__dlpack__()` gave; the capsule is used up.
Imported import_capsule(nb::handle object);

/// Bytes-like memory of Python's, held until the last copy of `owner` is gone, on whatever thread.
struct HeldBuffer {
  std::span<std::byte> bytes;
  bool writable = false;
  std::shared_ptr<const void> owner;
};
HeldBuffer hold_buffer(const nb::object& object);

int get_array_buffer(PyObject* self, Py_buffer* view, int flags);
/// Fills in a read-only (or writable) one-dimensional view of bytes.
int fill_bytes(PyObject* self, Py_buffer* view, int flags, const std::byte* data, std::uint64_t size,
               bool writable);

}  // namespace stagewire::python
