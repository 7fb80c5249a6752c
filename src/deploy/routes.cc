#include "deploy/routes.hpp"

#include <algorithm>

#include "base/fault_spec.hpp"
#include "deploy/cpu_file.hpp"

namespace stagewire::deploy {
namespace {

/// The values of backend_type besides auto, and what each stands on.
struct Need {
  std::string_view backend;
  std::string_view what;
  bool gpu_memory = false;
};

constexpr Need kNeeds[] = {
    {"shm", "Linux with memfd", false},
    {"rdma", "an RDMA network device and libibverbs", false},
    {"xgmi", "an AMD GPU and ROCm's libamdhip64", true},
    {"cuda_ipc", "an NVIDIA GPU and its driver's libcuda", true},
    {"ucx", "UCX's libucp", false},
};

const BackendReport* find_report(const std::vector<BackendReport>& backends, std::string_view name) {
  auto at = std::find_if(backends.begin(), backends.end(),
                         [&](const BackendReport& one) { return one.name == name; });
  return at == backends.end() ? nullptr : &*at;
}

/// The backends of backend_type that work here, and hold host memory.
std::string usable_names(const std::vector<BackendReport>& backends) {
  std::string out;
  for (const Need& need : kNeeds) {
    const BackendReport* report = find_report(backends, need.backend);
    if (report == nullptr || !report->usable || need.gpu_memory) continue;
    out += (out.empty() ? "" : ", ") + std::string(need.backend);
  }
  return out;
}

bool has_gpu_backend(const std::vector<BackendReport>& backends) {
  return std::any_of(std::begin(kNeeds), std::end(kNeeds), [&](const Need& need) {
    const BackendReport* report = find_report(backends, need.backend);
    return need.gpu_memory && report != nullptr && report->usable;
  });
}

/// Names the file that needs no GPU, where there is one.
std::string cpu_hint(const ConnectorSpec& spec) {
  const std::string file = spec.place.file ? cpu_file_beside(*spec.place.file) : "";
  return file.empty() ? "" : "; " + file + " has the same stages without a GPU";
}

void check_pool_device(const ConnectorSpec& spec, const std::vector<BackendReport>& backends,
                       Diagnostics& diagnostics) {
  const std::string& device = spec.config.memory_pool_device;
  if (device == "cpu") return;
  Place place = spec.place_of("memory_pool_device");
  std::string path = spec.path_of("memory_pool_device");
  std::string kind = device.substr(0, device.find(':'));
  if (kind == "cuda" || kind == "hip" || kind == "rocm" || kind == "gpu" || kind == "xpu" || kind == "npu") {
    if (has_gpu_backend(backends)) return;
    diagnostics.error(
        place, path, "a pool on `", device, "` needs a backend for GPU memory (",
        "xgmi or cuda_ipc), which this build of Stagewire has not: write cpu; tensors are then handed ",
        "over through host memory", cpu_hint(spec));
  } else {
    diagnostics.error(place, path, "`", device, "` is no device: write cpu");
  }
}

void check_device_name(const ConnectorSpec& spec, Diagnostics& diagnostics) {
  const std::string& type = spec.config.backend_type;
  if (!spec.config.backend_settings.contains("device_name") || type == "rdma" || type == "auto") return;
  diagnostics.warning(spec.place_of("device_name"), spec.path_of("device_name"),
                      "is read by rdma only, not by ", type);
}

/// Who asks for MORI-IO's engines shall have them.
void check_mori(const ConnectorSpec& spec, const std::vector<BackendReport>& backends,
                Diagnostics& diagnostics) {
  const auto& settings = spec.config.backend_settings;
  if (!settings.contains("mori_port")) return;
  const BackendReport* report = find_report(backends, "mori");
  if (report != nullptr && !report->usable) {
    diagnostics.error(spec.place_of("mori_port"), spec.path_of("mori_port"),
                      "MORI-IO's engines are met over RDMA, which cannot be used here: ", report->reason,
                      ". Leave mori_port out");
  }
  if (!spec.config.secret_key.empty()) {
    diagnostics.warning(spec.place_of("mori_port"), spec.path_of("mori_port"),
                        "MORI-IO's engines have no secret: secret_key does not protect this port");
  }
}

/// Faults go in front of a backend, which has to be there.
void check_fault_backend(const ConnectorSpec& spec, const std::vector<BackendReport>& backends,
                         Diagnostics& diagnostics) {
  if (spec.config.fault_spec.empty()) return;
  const auto faults = base::FaultSpec::parse(spec.config.fault_spec);
  if (!faults) return;  // that was reported
  const BackendReport* report = find_report(backends, faults->over);
  if (report != nullptr && report->usable) return;
  diagnostics.error(spec.place_of("fault_spec"), spec.path_of("fault_spec"), "over=", faults->over, ": ",
                    report != nullptr ? report->reason : "there is no such backend");
}

}  // namespace

std::string choose_route(const ConnectorSpec& spec, const std::vector<BackendReport>& backends,
                         Diagnostics& diagnostics) {
  const std::string& type = spec.config.backend_type;
  Place place = spec.place_of("backend_type");
  std::string path = spec.path_of("backend_type");
  check_pool_device(spec, backends, diagnostics);
  check_device_name(spec, diagnostics);
  check_fault_backend(spec, backends, diagnostics);
  check_mori(spec, backends, diagnostics);
  std::string usable = usable_names(backends);
  if (type == "auto") {
    if (!usable.empty())
      return usable.substr(0, usable.find(',')) + " (auto: the best of " + usable + " here)";
    diagnostics.error(place, path, "no backend works here that joins two processes: see stagewire doctor");
    return "";
  }
  const Need* need = std::find_if(std::begin(kNeeds), std::end(kNeeds),
                                  [&](const Need& one) { return one.backend == type; });
  if (need == std::end(kNeeds)) return "";  // no such choice; that was reported
  if (need->gpu_memory && spec.config.memory_pool_device == "cpu") {
    diagnostics.error(place, path, type,
                      " moves GPU memory, and memory_pool_device is cpu: write backend_type: auto");
  }
  const BackendReport* report = find_report(backends, type);
  if (report != nullptr && report->usable) return type + " (backend_type: " + type + ")";
  std::string why =
      report != nullptr
          ? report->reason
          : base::text("this build of Stagewire has no such backend (it would need ", need->what, ")");
  std::string instead = usable.empty() ? "" : ", which is " + usable.substr(0, usable.find(',')) + " here";
  diagnostics.error(place, path, type, " cannot be used: ", why, ". Write backend_type: auto", instead,
                    need->gpu_memory ? cpu_hint(spec) : "");
  return "";
}

}  // namespace stagewire::deploy
