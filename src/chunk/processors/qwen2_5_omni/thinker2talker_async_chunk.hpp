// Qwen2.5-Omni's thinker to its talker, row by row while the thinker still speaks.
#pragma once

#include "chunk/processors/payload_parts.hpp"
#include "chunk/processors/prompt_progress.hpp"
#include "chunk/processors/qwen2_5_omni/thinker_output.hpp"
#include "chunk/processors/request_states.hpp"
#include "chunk/processors/row_buffer.hpp"

namespace stagewire::chunk::qwen2_5_omni {

/// A request between two steps.
struct ThinkerStream {
  PromptProgress progress;
  std::optional<DType> dtype;  ///< of its rows, from first to last
  RowBuffer prompt;            ///< rows that are held, or that went out with the last call
  RowBuffer reply;             ///< the last rows after it
  Voice voice;
  SegmentIds held_ids;
  Value prompt_payload;  ///< built for each prompt
  Value reply_payload;   ///< built once

  void drop_prompt();
  void end_segment();
};

/// Rows of a prompt are embed.prefill, rows after it embed.decode, whichever chunk they come in. Chunk 0
/// holds the prompt's rows and the first after them, ids.all and ids.prompt, and meta.next_stage_prompt_len,
/// the length of the talker's prompt. Each further chunk holds the rows of one step, usually one. Further
/// prompts of a resumable request are sent as chunk 0 is.
///
/// Rows keep the dtype in which the model makes them: the talker widens bfloat16 itself, without a loss, and
/// half the bytes travel.
class Thinker2TalkerAsyncChunk final : public PerRequestProcessor<ThinkerStream> {
 private:
  Result<Value*> process(const ChunkRequest& request, const Value& output, bool terminal) override;
};

}  // namespace stagewire::chunk::qwen2_5_omni
