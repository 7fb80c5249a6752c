// Copies between mappings.
#pragma once

#include <cstddef>

namespace stagewire::backends::shm {

/// Copies `size` bytes, a part of a copy of `whole` bytes: large ones bypass the caches where that is faster.
/// The bytes are visible to whoever sees what this thread publishes afterwards with release order.
void copy_bytes(std::byte* target, const std::byte* source, std::size_t size, std::size_t whole);

/// From how many bytes on a copy bypasses the caches.
std::size_t streaming_threshold();

/// The copy that does; exposed for its test.
void copy_streaming(std::byte* target, const std::byte* source, std::size_t size);

}  // namespace stagewire::backends::shm
