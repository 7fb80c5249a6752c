// What has threads of its own is closed before the interpreter goes, whoever still holds it.
#pragma once

#include <functional>
#include <memory>

namespace stagewire::python {

/// `close` is called with the object, without the GIL, if this process still has it then.
void close_at_exit(std::weak_ptr<void> object, std::function<void(void*)> close);

template <typename T>
std::shared_ptr<T> closed_at_exit(std::unique_ptr<T> made) {
  std::shared_ptr<T> object(std::move(made));
  close_at_exit(object, [](void* it) { static_cast<T*>(it)->close(); });
  return object;
}

}  // namespace stagewire::python
