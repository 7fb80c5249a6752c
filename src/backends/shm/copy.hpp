// Copies between mappings.
#pragma once

#include <cstddef>

namespace stagewire::backends::shm {

/// Copies `size` bytes that belong to a copy of `whole` bytes: large ones bypass the caches where that is
/// faster. The bytes are visible to whoever sees what this thread publishes afterwards with release order.
void copy_bytes(std::byte* target, const std::byte* source, std::size_t size, std::size_t whole);

}  // namespace stagewire::backends::shm
