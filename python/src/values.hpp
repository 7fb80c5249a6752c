// Python objects as payload values, and back.
#pragma once

#include <memory>
#include <vector>

#include "array.hpp"
#include "stagewire/payload.hpp"

namespace stagewire::python {

/// A value whose views point into Python objects, and those objects: others may drop them from their
/// containers while the GIL is released. Made and destroyed with the GIL.
struct HeldValue {
  Value value;
  std::vector<nb::object> held;
};

/// None, bool, int, float, str, bytes-like, list, tuple, dict, tensors and numpy arrays, nested. Raises
/// TypeError for anything else, naming where it stands.
HeldValue import_value(nb::handle object);

/// The value as Python objects; tensors and arrays become views that share `owner`, everything else is
/// copied.
nb::object export_value(const Value& value, const std::shared_ptr<const void>& owner, Framework framework,
                        bool writable = false);

}  // namespace stagewire::python
