// The three stages, each a function over its StageContext.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "pipeline/stage_context.hpp"

namespace stagewire::pipeline::speech {

/// How many codec frames the encoder puts into a chunk.
struct ChunkSizes {
  std::size_t first = 25;   ///< `initial_codec_chunk_frames`; 0 or absent = as the others
  std::size_t others = 25;  ///< `codec_chunk_frames`
};

/// `invalid_argument` for sizes that are none.
Result<ChunkSizes> chunk_sizes(const std::map<std::string, std::int64_t>& options);

/// Stage 0: WAV file -> frames of 20 ms, five to a chunk.
Status read_speech(StageContext& context);
/// Stage 1: frames -> codec frames.
Status encode_speech(StageContext& context);
/// Stage 2: codec frames -> WAV file, written as they come.
Status decode_speech(StageContext& context);

}  // namespace stagewire::pipeline::speech
