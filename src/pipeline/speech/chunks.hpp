// What the speech stages send each other: maps in the style of vLLM-Omni's payloads.
//
//   reader -> encoder   {"audio": float32 tensor [frames, values of a frame],
//                        "meta": {"finished": bool, "sample_rate", "channels", "sample_count", "lookahead":
//                        int}}
//   encoder -> decoder  {"codes": {"audio": [bytes of one codec frame, ...]},
//                        "meta": {the same}}
//
// The last chunk of a stream has finished = true. It may carry frames, like any other, or none.
#pragma once

#include <span>
#include <vector>

#include "pipeline/speech/opus_codec.hpp"
#include "stagewire/payload.hpp"

namespace stagewire::pipeline::speech {

struct FrameChunk {
  StreamInfo stream;  ///< lookahead 0
  bool finished = false;
  std::vector<float> values;  ///< of whole frames
};

struct CodeChunk {
  StreamInfo stream;
  bool finished = false;
  std::vector<std::span<const std::byte>> packets;  ///< views
};

/// The payload points to the chunk's memory.
Value to_payload(const FrameChunk& chunk);
Value to_payload(const CodeChunk& chunk);

/// `corrupt` for a payload that is no such chunk. Values are copied (in a payload they may lie at any
/// address); packets of a CodeChunk point into the payload's memory.
Result<FrameChunk> read_frame_chunk(const Value& payload);
Result<CodeChunk> read_code_chunk(const Value& payload);

}  // namespace stagewire::pipeline::speech
