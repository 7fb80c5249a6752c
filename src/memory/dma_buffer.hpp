// Memory of a GPU, as a file descriptor that the driver of another device can map (the kernel's dma-buf).
#pragma once

#include <cstdint>

#include "base/unique_fd.hpp"
#include "stagewire/memory.hpp"
#include "stagewire/result.hpp"

namespace stagewire::memory {

struct DmaBuffer {
  base::UniqueFd fd;
  std::uint64_t offset = 0;  ///< of the region's first byte in it
};

/// Of the runtime whose memory this is: NVIDIA's driver (libcuda.so.1, or what STAGEWIRE_LIBCUDA names), else
/// ROCm's (libhsa-runtime64.so.1, or STAGEWIRE_LIBHSA), each opened when it is needed. The current device of
/// the calling thread stays what it is. `unsupported` says what each of them lacks.
Result<DmaBuffer> export_dma_buffer(const MemoryRegion& region);

}  // namespace stagewire::memory
