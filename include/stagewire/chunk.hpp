// The chunk path between two stages: what a model makes step by step, sent as numbered chunks of a request.
//
// A ChunkProcessor turns the output of one step into the payload of the next stage's next chunk.
// docs/chunk-path.md explains the path with a picture.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "stagewire/payload.hpp"
#include "stagewire/result.hpp"

namespace stagewire {

/// What the adapter and the processors may know of a request. The views are valid during the call.
struct ChunkRequest {
  std::string_view internal_id;  ///< this stage's own id
  std::string_view external_id;  ///< the id that all stages share: part of the key
  std::span<const std::int64_t> prompt_ids;
  std::span<const std::int64_t> output_ids;
  bool resumable = false;    ///< streaming input: more segments may follow
  std::string_view speaker;  ///< empty = none
  std::string_view language;
};

/// Turns what a stage's model made in one step into the payload of the next stage's next chunk. Called by one
/// thread at a time.
class ChunkProcessor {
 public:
  virtual ~ChunkProcessor() = default;
  /// `output`: what the model made in this step, a map; None when there is only the end to be told.
  /// `terminal`: the request, or its segment, ends with this call. nullopt: nothing to send yet. The returned
  /// value's views are valid until the next call for the same request.
  virtual Result<std::optional<Value>> process(const ChunkRequest& request, const Value& output,
                                               bool terminal) = 0;
  /// Drops what belongs to the segment that ended.
  virtual void end_segment(std::string_view external_id) = 0;
  /// Drops everything of the request.
  virtual void forget(std::string_view external_id) = 0;
};

/// The processors' configuration keys, with vLLM-Omni's names.
struct ChunkProcessorOptions {
  int codec_chunk_frames = 25;         ///< new frames of a chunk
  int codec_left_context_frames = 25;  ///< most frames before them that are sent again
  int initial_codec_chunk_frames = 0;  ///< new frames of the first chunk; 0 = as all others
};

/// The processor of this name: "qwen3_omni.thinker2talker_async_chunk",
/// "qwen3_omni.talker2code2wav_async_chunk", the same with "qwen2_5_omni", and "..._full_payload" of each.
/// `invalid_argument` names those that exist.
STAGEWIRE_API Result<std::unique_ptr<ChunkProcessor>> make_chunk_processor(
    std::string_view name, const ChunkProcessorOptions& options);

}  // namespace stagewire
