// Qwen2.5-Omni's thinker to its talker in one payload, when the thinker has ended.
#pragma once

#include "chunk/processors/payload_parts.hpp"
#include "chunk/processors/qwen2_5_omni/thinker_output.hpp"
#include "chunk/processors/request_states.hpp"
#include "chunk/processors/whole_stream.hpp"

namespace stagewire::chunk::qwen2_5_omni {

struct WholeThinkerStream {
  WholeStream rows;
  std::vector<float> values;  ///< of all rows
  Voice voice;
  Value payload;
  bool sent = false;

  void end_segment();
};

/// With the names of the original, which are flat: prompt_embeds [P, 3584] and thinker_result [G, 3584], both
/// float32, their shapes as lists, prompt_token_ids, thinker_output_token_ids, next_stage_prompt_len (P + 2)
/// and finished. An end without rows is an error: the talker would wait for ever.
class Thinker2TalkerFullPayload final : public PerRequestProcessor<WholeThinkerStream> {
 private:
  Result<Value*> process(const ChunkRequest& request, const Value& output, bool terminal) override;
};

}  // namespace stagewire::chunk::qwen2_5_omni
