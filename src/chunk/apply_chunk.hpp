// What a chunk changes in the request that it came for.
#pragma once

#include "stagewire/chunk_queues.hpp"

namespace stagewire::chunk {

/// `corrupt`: its codes are nothing that a stage can take as its prompt.
Status apply_chunk(StageRequest& request, Chunk chunk, ChunkMode mode);

}  // namespace stagewire::chunk
