// PayloadLimits as they are applied, the same on both sides.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "stagewire/payload.hpp"

namespace stagewire::payload {

/// Values are walked by recursion: what a stack of 1 MiB holds, with room.
inline constexpr std::size_t kDeepest = 256;

inline std::size_t max_depth(const PayloadLimits& limits) {
  return std::min(limits.max_depth, kDeepest);
}
/// The counts of msgpack have 32 bits.
inline std::size_t max_items(const PayloadLimits& limits) {
  return std::min<std::size_t>(limits.max_items, UINT32_MAX);
}

}  // namespace stagewire::payload
