// A GPU's runtime, as far as memory goes: allocations are memfds that are mapped here, and what is exported
// of them is the memfd. Both vendors' names for it, of which a test takes one by STAGEWIRE_LIBCUDA or
// STAGEWIRE_LIBHSA.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#define FAKE_GPU extern "C" __attribute__((visibility("default")))

namespace {

constexpr int kInvalidValue = 1;
constexpr int kInvalidContext = 201;
constexpr int kHsaInvalidArgument = 0x1001;
constexpr std::size_t kPage = 4096;

struct Allocation {
  std::size_t size = 0;
  int fd = -1;
};

std::mutex mutex;
std::map<std::uintptr_t, Allocation> allocations;
int retained = 0;
thread_local int contexts = 0;

// The one that the address lies in.
std::map<std::uintptr_t, Allocation>::iterator find(std::uintptr_t address) {
  auto at = allocations.upper_bound(address);
  if (at == allocations.begin()) return allocations.end();
  --at;
  return address < at->first + at->second.size ? at : allocations.end();
}

std::size_t in_pages(std::size_t size) {
  return (size + kPage - 1) / kPage * kPage;
}

}  // namespace

// For tests.
FAKE_GPU void* fake_gpu_allocate(std::size_t size) {
  const std::lock_guard lock(mutex);
  const int fd = ::memfd_create("fake_gpu", MFD_CLOEXEC);
  if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(in_pages(size))) != 0) return nullptr;
  void* memory = ::mmap(nullptr, in_pages(size), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return nullptr;
  allocations[reinterpret_cast<std::uintptr_t>(memory)] = {size, fd};
  return memory;
}
FAKE_GPU void fake_gpu_free(void* memory) {
  const std::lock_guard lock(mutex);
  const auto at = allocations.find(reinterpret_cast<std::uintptr_t>(memory));
  ::munmap(memory, in_pages(at->second.size));
  ::close(at->second.fd);
  allocations.erase(at);
}
/// Contexts that are current on this thread or retained by anybody: 0 when all was put back.
FAKE_GPU int fake_gpu_contexts() {
  const std::lock_guard lock(mutex);
  return contexts + retained;
}

// NVIDIA's driver.
FAKE_GPU int cuInit(unsigned) {
  return 0;
}
FAKE_GPU int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ordinal == 0 ? 0 : 101;
}
FAKE_GPU int cuDevicePrimaryCtxRetain(void** context, int) {
  const std::lock_guard lock(mutex);
  ++retained;
  *context = &allocations;
  return 0;
}
FAKE_GPU int cuDevicePrimaryCtxRelease_v2(int) {
  const std::lock_guard lock(mutex);
  --retained;
  return 0;
}
FAKE_GPU int cuCtxPushCurrent_v2(void*) {
  ++contexts;
  return 0;
}
FAKE_GPU int cuCtxPopCurrent_v2(void**) {
  --contexts;
  return 0;
}
FAKE_GPU int cuMemGetAddressRange_v2(unsigned long long* base, std::size_t* size,
                                     unsigned long long address) {
  const std::lock_guard lock(mutex);
  if (contexts == 0) return kInvalidContext;
  const auto at = find(address);
  if (at == allocations.end()) return kInvalidValue;
  *base = at->first;
  *size = at->second.size;
  return 0;
}
FAKE_GPU int cuMemGetHandleForAddressRange(void* handle, unsigned long long address, std::size_t size,
                                           int type, unsigned long long flags) {
  const std::lock_guard lock(mutex);
  if (contexts == 0) return kInvalidContext;
  const auto at = find(address);
  const bool whole_pages = address % kPage == 0 && size % kPage == 0;
  if (at == allocations.end() || !whole_pages || type != 1 || flags != 0) return kInvalidValue;
  *static_cast<int*>(handle) = ::dup(at->second.fd);
  return 0;
}

// ROCm's runtime.
FAKE_GPU int hsa_init() {
  return 0;
}
FAKE_GPU int hsa_shut_down() {
  return 0;
}
FAKE_GPU int hsa_amd_portable_export_dmabuf(const void* pointer, std::size_t size, int* fd,
                                            std::uint64_t* offset) {
  const std::lock_guard lock(mutex);
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  const auto at = find(address);
  if (at == allocations.end() || address + size > at->first + at->second.size) return kHsaInvalidArgument;
  *fd = ::dup(at->second.fd);
  *offset = address - at->first;
  return 0;
}
