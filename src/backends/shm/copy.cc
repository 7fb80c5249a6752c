#include "backends/shm/copy.hpp"

#include <cstring>

namespace stagewire::backends::shm {

void copy_bytes(std::byte* target, const std::byte* source, std::size_t size, std::size_t) {
  if (size > 0) std::memcpy(target, source, size);
}

}  // namespace stagewire::backends::shm
