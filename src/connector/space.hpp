// Waiting for space in the pool.
#pragma once

#include "engine/core.hpp"
#include "memory/pool.hpp"

namespace stagewire::connector {

/// A staged block; waits until the deadline, in turn with all others who wait (R15). The calling thread
/// drives the engine meanwhile, since what frees the space comes in messages.
Result<memory::Pool::Offset> allocate_block(engine::Core& core, memory::Pool& pool, std::uint64_t size,
                                            base::Deadline deadline,
                                            memory::Claim claim = memory::Claim::full);

}  // namespace stagewire::connector
