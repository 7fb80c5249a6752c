#include "backends/shm/ring_layout.hpp"

#include <bit>

#include "base/text.hpp"

namespace stagewire::backends::shm {

Status Geometry::check() const {
  if (ring_size < kPage || ring_size > kMaxRing || !std::has_single_bit(ring_size)) {
    return base::error(ErrorCode::invalid_argument, "message ring of ", ring_size,
                       " bytes: it must be a power of two from ", kPage, " to ", kMaxRing);
  }
  if (slots > kMaxSlots) {
    return base::error(ErrorCode::invalid_argument, slots, " payload slots: at most ", kMaxSlots);
  }
  if (slots > 0 && (slot_size == 0 || slot_size > kMaxSlotSize || slot_size % 64 != 0)) {
    return base::error(ErrorCode::invalid_argument, "payload slots of ", slot_size,
                       " bytes: it must be a multiple of 64 up to ", kMaxSlotSize);
  }
  return {};
}

}  // namespace stagewire::backends::shm
