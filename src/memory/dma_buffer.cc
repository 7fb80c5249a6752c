#include "memory/dma_buffer.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "base/text.hpp"

namespace stagewire::memory {
namespace {

// A vendor's library, which stays loaded: other parts of the process hold what it has made.
class Library {
 public:
  Library(const char* variable, const char* usual_name) {
    const char* named = std::getenv(variable);
    name_ = named == nullptr || *named == '\0' ? usual_name : named;
    library_ = ::dlopen(name_.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library_ == nullptr) trouble_ = ::dlerror();
  }
  ~Library() {
    if (library_ != nullptr) ::dlclose(library_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  template <typename Function>
  void need(const char* name, Function& function) {
    if (library_ == nullptr) return;
    function = reinterpret_cast<Function>(::dlsym(library_, name));
    if (function == nullptr && trouble_.empty()) trouble_ = base::text("no function ", name);
  }
  Status status() const {
    return trouble_.empty() ? Status() : Status(base::error(ErrorCode::unsupported, name_, ": ", trouble_));
  }

 private:
  std::string name_;
  std::string trouble_;
  void* library_ = nullptr;
};

// Numbers and types as in cuda.h, whose types are plain integers and pointers (dma_buffer_test.cc compares
// them with the real header where there is one).
struct Cuda {
  int (*init)(unsigned flags) = nullptr;
  int (*device_get)(int* device, int ordinal) = nullptr;
  int (*primary_retain)(void** context, int device) = nullptr;
  int (*primary_release)(int device) = nullptr;
  int (*push)(void* context) = nullptr;
  int (*pop)(void** context) = nullptr;
  int (*range)(unsigned long long* base, std::size_t* size, unsigned long long address) = nullptr;
  int (*handle)(void* handle, unsigned long long address, std::size_t size, int type,
                unsigned long long flags) = nullptr;
};
constexpr int kCudaDmaBufferHandle = 1;

Error cuda_error(const char* call, int problem) {
  return base::error(ErrorCode::unsupported, call, ": error ", problem, " of CUDA");
}

// The allocation around the region, in whole pages: nothing else can be exported.
Result<DmaBuffer> export_range(const Cuda& cuda, const MemoryRegion& region) {
  const auto address = reinterpret_cast<std::uintptr_t>(region.data);
  unsigned long long begin = 0;
  std::size_t size = 0;
  if (const int problem = cuda.range(&begin, &size, address); problem != 0) {
    return cuda_error("cuMemGetAddressRange", problem);
  }
  if (address < begin || region.size > begin + size - address) {
    return base::error(ErrorCode::invalid_argument, "a region of ", region.size, " bytes at ", address,
                       " goes beyond its allocation of ", size, " bytes at ", begin);
  }
  const auto page = static_cast<unsigned long long>(::sysconf(_SC_PAGESIZE));
  const unsigned long long first = begin / page * page;
  const unsigned long long end = (begin + size + page - 1) / page * page;
  int fd = -1;
  const int problem = cuda.handle(&fd, first, end - first, kCudaDmaBufferHandle, 0);
  if (problem != 0) return cuda_error("cuMemGetHandleForAddressRange", problem);
  return DmaBuffer{base::UniqueFd(fd), address - first};
}

Result<DmaBuffer> export_by_cuda(const MemoryRegion& region) {
  Library library("STAGEWIRE_LIBCUDA", "libcuda.so.1");
  Cuda cuda;
  library.need("cuInit", cuda.init);
  library.need("cuDeviceGet", cuda.device_get);
  library.need("cuDevicePrimaryCtxRetain", cuda.primary_retain);
  library.need("cuDevicePrimaryCtxRelease_v2", cuda.primary_release);
  library.need("cuCtxPushCurrent_v2", cuda.push);
  library.need("cuCtxPopCurrent_v2", cuda.pop);
  library.need("cuMemGetAddressRange_v2", cuda.range);
  library.need("cuMemGetHandleForAddressRange", cuda.handle);
  if (Status ok = library.status(); !ok) return ok.error();
  if (const int problem = cuda.init(0); problem != 0) return cuda_error("cuInit", problem);
  int device = 0;
  if (const int problem = cuda.device_get(&device, std::max(region.device, 0)); problem != 0) {
    return cuda_error("cuDeviceGet", problem);
  }
  void* context = nullptr;
  if (const int problem = cuda.primary_retain(&context, device); problem != 0) {
    return cuda_error("cuDevicePrimaryCtxRetain", problem);
  }
  Result<DmaBuffer> exported = Error(ErrorCode::unsupported, "");
  if (const int problem = cuda.push(context); problem == 0) {
    exported = export_range(cuda, region);
    cuda.pop(&context);
  } else {
    exported = cuda_error("cuCtxPushCurrent", problem);
  }
  cuda.primary_release(device);
  return exported;
}

// ROCm's runtime finds the allocation, and the offset in it, by itself. Its handle is closed like any file.
Result<DmaBuffer> export_by_hsa(const MemoryRegion& region) {
  Library library("STAGEWIRE_LIBHSA", "libhsa-runtime64.so.1");
  int (*init)() = nullptr;
  int (*shut_down)() = nullptr;
  int (*export_dma)(const void* pointer, std::size_t size, int* fd, std::uint64_t* offset) = nullptr;
  library.need("hsa_init", init);
  library.need("hsa_shut_down", shut_down);
  library.need("hsa_amd_portable_export_dmabuf", export_dma);
  if (Status ok = library.status(); !ok) return ok.error();
  if (const int problem = init(); problem != 0) {
    return base::error(ErrorCode::unsupported, "hsa_init: error ", problem, " of HSA");
  }
  int fd = -1;
  DmaBuffer buffer;
  const int problem = export_dma(region.data, region.size, &fd, &buffer.offset);
  shut_down();  // counted: whoever else uses it keeps it
  if (problem != 0) {
    return base::error(ErrorCode::unsupported, "hsa_amd_portable_export_dmabuf: error ", problem, " of HSA");
  }
  buffer.fd.reset(fd);
  return buffer;
}

}  // namespace

Result<DmaBuffer> export_dma_buffer(const MemoryRegion& region) {
  auto by_cuda = export_by_cuda(region);
  if (by_cuda) return by_cuda;
  auto by_hsa = export_by_hsa(region);
  if (by_hsa) return by_hsa;
  return base::error(ErrorCode::unsupported, base::size_text(region.size), " of device ", region.device,
                     " cannot be shared as a dma-buf: ", by_cuda.error().message(), "; ",
                     by_hsa.error().message());
}

}  // namespace stagewire::memory
