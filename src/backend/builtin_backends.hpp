// The list of backends: the only place that names them all. A new backend is one declaration and one row
// here.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "stagewire/backend.hpp"

namespace stagewire::backends {

// Defined in src/backends/NAME/. Each fails with the reason when this machine cannot use it.
Result<std::unique_ptr<Backend>> create_local(const BackendOptions& options);
Result<std::unique_ptr<Backend>> create_shm(const BackendOptions& options);
Result<std::unique_ptr<Backend>> create_rdma(const BackendOptions& options);
Result<std::unique_ptr<Backend>> create_mori(const BackendOptions& options);
Result<std::unique_ptr<Backend>> create_fault(const BackendOptions& options);

}  // namespace stagewire::backends

namespace stagewire::backend {

using Factory = Result<std::unique_ptr<Backend>> (*)(const BackendOptions& options);

struct BuiltinBackend {
  std::string_view name;
  Factory create;         ///< nullptr: this build does not have it
  std::string_view note;  ///< one line: what it is, or what takes its place
  bool automatic;         ///< tried when the user names no backends
  bool listens = false;   ///< on a port of its own: wants BackendOptions::host
};

/// Every known name, in order of preference.
std::span<const BuiltinBackend> builtin_backends();

/// `invalid_argument` for a name that nobody knows, `unsupported` for one that this build lacks, else what
/// the backend's own factory says, with the backend's name in front.
Result<std::unique_ptr<Backend>> create_backend(std::string_view name, const BackendOptions& options);

}  // namespace stagewire::backend
