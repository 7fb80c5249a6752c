#include "at_exit.hpp"

#include <mutex>
#include <vector>

#include "binding.hpp"

namespace stagewire::python {
namespace {

struct Entry {
  pid_t process;
  std::weak_ptr<void> object;
  std::function<void(void*)> close;
};

struct Entries {
  std::mutex mutex;
  std::vector<Entry> all;
};

Entries& entries() {
  static auto* const known = new Entries();
  return *known;
}

void close_all() {
  std::vector<Entry> open;
  {
    const std::lock_guard lock(entries().mutex);
    open.swap(entries().all);
  }
  without_gil([&] {
    for (const Entry& entry : open) {
      if (entry.process != getpid()) continue;
      if (const auto object = entry.object.lock()) entry.close(object.get());
    }
  });
}

}  // namespace

void close_at_exit(std::weak_ptr<void> object, std::function<void(void*)> close) {
  const std::lock_guard lock(entries().mutex);
  std::erase_if(entries().all, [](const Entry& entry) { return entry.object.expired(); });
  entries().all.push_back({getpid(), std::move(object), std::move(close)});
}

void bind_exit(nb::module_& module) {
  module.def("close_all", close_all, "Closes every connector and engine of this process; called at exit.");
}

}  // namespace stagewire::python
