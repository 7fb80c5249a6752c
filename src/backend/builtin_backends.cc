#include "backend/builtin_backends.hpp"

#include <array>

#include "base/text.hpp"

namespace stagewire::backend {
namespace {

constexpr std::array kBackends = {
    BuiltinBackend{"local", backends::create_local, "engines of the same process", true},
    BuiltinBackend{"shm", backends::create_shm, "processes of one host, host memory", true},
    BuiltinBackend{"rdma", backends::create_rdma, "InfiniBand and RoCE between hosts", true},
    BuiltinBackend{"mori", backends::create_mori,
                   "MORI-IO's engines over InfiniBand and RoCE, by their protocol", false, true},
    BuiltinBackend{"xgmi", nullptr, "peer copies between AMD GPUs; use shm for host memory", false},
    BuiltinBackend{"cuda_ipc", nullptr, "peer copies between NVIDIA GPUs; use shm for host memory", false},
    BuiltinBackend{"ucx", nullptr, "TCP and whatever else UCX reaches; use shm on one host", false},
    BuiltinBackend{"fault", backends::create_fault, "another backend with injected faults, for tests", false},
};

std::string known_names() {
  std::string names;
  for (const BuiltinBackend& backend : kBackends) {
    if (!names.empty()) names += ", ";
    names += backend.name;
  }
  return names;
}

}  // namespace

std::span<const BuiltinBackend> builtin_backends() {
  return kBackends;
}

Result<std::unique_ptr<Backend>> create_backend(std::string_view name, const BackendOptions& options) {
  for (const BuiltinBackend& backend : kBackends) {
    if (backend.name != name) continue;
    if (backend.create == nullptr) {
      return base::error(ErrorCode::unsupported, "backend ", name, ": this build does not have it (",
                         backend.note, ")");
    }
    auto created = backend.create(options);
    if (!created) return created.error().with_context(base::text("backend ", name));
    return created;
  }
  return base::error(ErrorCode::invalid_argument, "no backend is called '", name,
                     "'; known: ", known_names());
}

}  // namespace stagewire::backend
