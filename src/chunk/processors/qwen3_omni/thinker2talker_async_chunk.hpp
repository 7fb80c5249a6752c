// Qwen3-Omni's thinker to its talker, row by row while the thinker still speaks.
#pragma once

#include "chunk/processors/payload_parts.hpp"
#include "chunk/processors/prompt_progress.hpp"
#include "chunk/processors/qwen3_omni/thinker_output.hpp"
#include "chunk/processors/request_states.hpp"
#include "chunk/processors/row_buffer.hpp"

namespace stagewire::chunk::qwen3_omni {

/// A request between two steps.
struct ThinkerStream {
  PromptProgress progress;
  RowBuffer prompt_embedding;  ///< rows that are held, or that went out with the last call
  RowBuffer prompt_hidden;
  RowBuffer reply_embedding;  ///< the last rows after the prompt
  RowBuffer reply_hidden;
  Marks marks;
  Voice voice;
  SegmentIds held_ids;
  Value prompt;  ///< the payloads: built for each prompt, and once for all rows after it
  Value reply;

  void drop_prompt();
  void end_segment();
};

/// Chunk 0 holds the rows of the prompt and the first after it (embed.prefill, hidden_states.output), the
/// marks, ids.all and ids.prompt; it goes out when there are more rows than the prompt has tokens, or at the
/// end. Each further chunk holds the rows of one step (embed.decode), usually one.
///
/// Further prompts of a resumable request are sent as chunk 0 is, without the marks; the rows after them come
/// with hidden_states.output and ids.output.
class Thinker2TalkerAsyncChunk final : public PerRequestProcessor<ThinkerStream> {
 private:
  Result<Value*> process(const ChunkRequest& request, const Value& output, bool terminal) override;
};

}  // namespace stagewire::chunk::qwen3_omni
