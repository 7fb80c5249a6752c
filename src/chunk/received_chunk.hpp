// From a delivery to a chunk.
#pragma once

#include "stagewire/chunk.hpp"

namespace stagewire::chunk {

/// Decodes in place; the payload takes `memory`, a value of any form. `corrupt`: it is no payload of the
/// chunk path.
Result<Chunk> make_chunk(std::int64_t index, Delivery delivery, Value memory);

/// Whether the payload has so few entries that its memory is worth keeping.
bool is_small(const Value& payload);

/// A generation stage has nothing to do for it: no codes, and neither request nor segment end with it.
bool is_empty_step(const Chunk& chunk);

}  // namespace stagewire::chunk
