#include <dlfcn.h>
#include <link.h>

#include <array>

#include "doctor/checks.hpp"

namespace stagewire::doctor {
namespace {

struct Library {
  const char* name;
  std::array<const char*, 3> sonames;  ///< the newest first; nullptr = no more
  const char* use;                     ///< what for
  const char* install;
};

constexpr std::array kLibraries{
    Library{"libibverbs",
            {"libibverbs.so.1"},
            "for RDMA network cards: the backends rdma and mori",
            "sudo apt-get install libibverbs1 ibverbs-providers"},
    Library{"libucp",
            {"libucp.so.0"},
            "for UCX, which no backend of this version uses",
            "sudo apt-get install libucx0"},
    Library{"libamdhip64",
            {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"},
            "for AMD GPUs, which no backend of this version uses",
            "sudo apt-get install libamdhip64-5 (or ROCm from AMD's repository)"},
    Library{"libhsa-runtime64",
            {"libhsa-runtime64.so.1"},
            "to register an AMD GPU's memory for RDMA",
            "sudo apt-get install libhsa-runtime64-1 (or ROCm from AMD's repository)"},
    Library{"libcuda",
            {"libcuda.so.1"},
            "to register an NVIDIA GPU's memory for RDMA",
            "sudo apt-get install libcuda1 (from Debian's non-free section)"},
};

}  // namespace

std::optional<std::string> find_library(const char* soname) {
  void* handle = dlopen(soname, RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) return std::nullopt;
  link_map* map = nullptr;
  std::string path = soname;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr) path = map->l_name;
  dlclose(handle);
  return path;
}

std::vector<Finding> check_libraries(const LibraryFinder& find) {
  std::vector<Finding> findings;
  for (const Library& library : kLibraries) {
    // Pipelines run without any of them, so that one is absent is no shortcoming of the machine.
    Finding finding{.topic = "libraries", .name = library.name, .value = "not installed"};
    finding.advice = library.use;
    finding.command = library.install;
    for (const char* soname : library.sonames) {
      if (soname == nullptr) break;
      const auto path = find(soname);
      if (!path) continue;
      finding.value = *path;
      finding.command.clear();
      break;
    }
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace stagewire::doctor
