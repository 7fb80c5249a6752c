// These tests name the backends that a machine has; nothing is probed. Weak: the library's own wins where it
// is linked.
#include "stagewire/engine.hpp"

namespace stagewire {
__attribute__((weak)) std::vector<BackendReport> probe_backends() {
  return {};
}
}  // namespace stagewire
