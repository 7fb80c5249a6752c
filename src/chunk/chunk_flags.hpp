// What a chunk says about its place in the stream: meta.finished and meta.is_segment_finished.
#pragma once

#include "stagewire/payload.hpp"

namespace stagewire::chunk {

struct ChunkFlags {
  bool finished = false;          ///< no chunk of the request follows
  bool segment_finished = false;  ///< none of this segment of its input follows
};

/// Sets both in a payload, as 0-dim bool tensors (their bytes live for ever), in place of what it says about
/// them. `invalid_argument`: the payload, or its meta, is no map.
Status set_flags(Value& payload, ChunkFlags flags);

/// True for a one-element tensor that is not zero and for a true bool or integer, as the original reads it.
bool is_set(const Value* flag);
ChunkFlags read_flags(const Value& payload);

}  // namespace stagewire::chunk
