// DLPack capsules: ours for others, and others' for us.
#include <vector>

#include "array.hpp"

namespace stagewire::python {
namespace {

using dlpack::Managed;
using dlpack::ManagedVersioned;

// Lives until the consumer's deleter call, which may come on any thread, without the GIL.
template <typename Capsule>
struct Exported {
  Capsule managed{};
  std::vector<std::int64_t> shape;
  std::shared_ptr<const void> owner;

  static void destroy(Capsule* managed) { delete static_cast<Exported*>(managed->context); }
};

// A capsule that nobody has used still owns what it carries.
template <typename Capsule>
void drop_unused(PyObject* capsule, const char* name) {
  if (PyCapsule_IsValid(capsule, name) == 0) return;
  auto* const managed = static_cast<Capsule*>(PyCapsule_GetPointer(capsule, name));
  if (managed->deleter != nullptr) managed->deleter(managed);
}

template <typename Capsule>
Exported<Capsule>* exported(const Array& array, dlpack::DataType dtype, std::vector<std::int64_t> shape) {
  auto* const made = new Exported<Capsule>();
  made->shape = std::move(shape);
  made->owner = array.owner;
  made->managed.context = made;
  made->managed.deleter = &Exported<Capsule>::destroy;
  made->managed.tensor = {.data = const_cast<std::byte*>(array.view.data),
                          .device = {dlpack::kCpu, 0},
                          .dimensions = static_cast<std::int32_t>(made->shape.size()),
                          .dtype = dtype,
                          .shape = made->shape.data(),
                          .strides = nullptr,
                          .byte_offset = 0};
  return made;
}

nb::object unversioned(const Array& array, dlpack::DataType dtype, std::vector<std::int64_t> shape) {
  auto* const made = exported<Managed>(array, dtype, std::move(shape));
  PyObject* const capsule = PyCapsule_New(&made->managed, dlpack::kName,
                                          [](PyObject* self) { drop_unused<Managed>(self, dlpack::kName); });
  if (capsule == nullptr) {
    delete made;
    throw nb::python_error();
  }
  return nb::steal(capsule);
}

}  // namespace

nb::object raw_capsule(const std::shared_ptr<Array>& array) {
  return unversioned(*array, traits_of(DType::uint8).dlpack, {static_cast<std::int64_t>(array->size)});
}

nb::object capsule_of(const std::shared_ptr<Array>& array, bool versioned) {
  const dlpack::DataType dtype = traits_of(array->view.dtype).dlpack;
  if (array->view.dtype == DType::int4) return raw_capsule(array);
  if (!versioned) return unversioned(*array, dtype, array->view.shape);
  auto* const made = exported<ManagedVersioned>(*array, dtype, array->view.shape);
  made->managed.version = {1, 0};
  made->managed.flags = array->writable ? 0 : dlpack::kReadOnly;
  PyObject* const capsule = PyCapsule_New(&made->managed, dlpack::kVersionedName, [](PyObject* self) {
    drop_unused<ManagedVersioned>(self, dlpack::kVersionedName);
  });
  if (capsule == nullptr) {
    delete made;
    throw nb::python_error();
  }
  return nb::steal(capsule);
}

Imported import_capsule(nb::handle object) {
  const nb::object capsule = object.attr("__dlpack__")();
  auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule.ptr(), dlpack::kName));
  if (managed == nullptr) throw nb::python_error();
  const dlpack::Tensor& tensor = managed->tensor;
  const std::optional<DType> dtype = dtype_of(tensor.dtype);
  if (!dtype)
    throw Raised(Error(ErrorCode::unsupported, "a DLPack tensor of a dtype that is not known here"));
  if (tensor.device.type != dlpack::kCpu) {
    throw Raised(
        Error(ErrorCode::unsupported, "a DLPack tensor on another device: copy it to the host first"));
  }
  const auto count = static_cast<std::size_t>(tensor.dimensions);
  Imported imported;
  imported.view.dtype = *dtype;
  imported.view.data = static_cast<const std::byte*>(tensor.data) + tensor.byte_offset;
  imported.view.shape.assign(tensor.shape, tensor.shape + count);
  if (tensor.strides != nullptr) imported.view.strides.assign(tensor.strides, tensor.strides + count);
  imported.owner = capsule;  // which stays unused, so that it frees the tensor when it goes
  return imported;
}

}  // namespace stagewire::python
