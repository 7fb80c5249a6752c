// What all parts of the binding share: errors that become exceptions, calls without the GIL, and who may
// still touch an object after a fork.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "stagewire/engine.hpp"
#include "stagewire/result.hpp"

namespace stagewire::python {

namespace nb = nanobind;

/// An Error on its way to the caller: becomes the exception of its code (stagewire/errors.py).
class Raised : public std::exception {
 public:
  explicit Raised(Error error) : error_(std::move(error)) {}
  const Error& error() const { return error_; }
  const char* what() const noexcept override { return error_.message().c_str(); }

 private:
  Error error_;
};

template <typename T>
T value_or_raise(Result<T> result) {
  if (!result) throw Raised(result.error());
  return std::move(*result);
}

inline void raise_if_failed(const Status& status) {
  if (!status) throw Raised(status.error());
}

/// Calls without the GIL. `function` touches no Python object.
template <typename Function>
auto without_gil(Function&& function) {
  const nb::gil_scoped_release released;
  return function();
}

/// Python's seconds; negative is none at all, and what no clock can hold is for ever.
inline Milliseconds milliseconds(double seconds) {
  constexpr double kLongest = 1e12;
  if (!(seconds > 0)) return Milliseconds(0);
  if (seconds > kLongest) return Milliseconds::max();
  return std::chrono::ceil<Milliseconds>(std::chrono::duration<double>(seconds));
}

/// Holds something with threads of its own. After a fork the child has none of these threads: there the
/// object refuses every call, and is left alone when it is dropped. Destroyed without the GIL.
template <typename T>
class Owned {
 public:
  explicit Owned(std::shared_ptr<T> object) : object_(std::move(object)), process_(getpid()) {}
  Owned(Owned&&) noexcept = default;
  Owned& operator=(Owned&&) = delete;
  ~Owned() {
    if (!object_) return;
    if (getpid() != process_) {
      new std::shared_ptr<T>(std::move(object_));
      return;
    }
    without_gil([this] { object_.reset(); });
  }

  T& operator*() const { return *get(); }
  T* operator->() const { return get().get(); }
  const std::shared_ptr<T>& get() const {
    if (getpid() != process_) {
      throw Raised(Error(ErrorCode::unsupported, "this object belongs to process " +
                                                     std::to_string(process_) +
                                                     ", which was forked: create it after the fork"));
    }
    return object_;
  }
  bool is_ours() const { return getpid() == process_; }

 private:
  std::shared_ptr<T> object_;
  pid_t process_;
};

void bind_errors(nb::module_& module);
void bind_arrays(nb::module_& module);
void bind_payload(nb::module_& module);
void bind_connector(nb::module_& module);
void bind_chunks(nb::module_& module);
void bind_engine(nb::module_& module);
void bind_exit(nb::module_& module);
void bind_doctor(nb::module_& module);

}  // namespace stagewire::python
