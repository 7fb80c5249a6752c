// Qwen3-Omni's thinker to its talker, row by row while the thinker still speaks.
#pragma once

#include "chunk/processors/payload_parts.hpp"
#include "chunk/processors/qwen3_omni/thinker_output.hpp"
#include "chunk/processors/request_states.hpp"
#include "chunk/processors/row_buffer.hpp"

namespace stagewire::chunk::qwen3_omni {

/// A request between two steps.
struct ThinkerStream {
  RowBuffer
      held_embedding;  ///< rows of a prompt that wait for the row after it, or those that were just sent
  RowBuffer held_hidden;
  RowBuffer decode_embedding;  ///< the last rows after the prompt
  RowBuffer decode_hidden;
  Marks marks;
  Voice voice;
  Value::List held_prompt_ids;  ///< of a further segment
  Value::List held_all_ids;
  Value prompt;  ///< the payloads: built for each prompt, and once for all rows after it
  Value decode;
  bool begun = false;      ///< chunk 0 went out
  bool sent = false;       ///< the held rows went out: they go with the next call
  bool streaming = false;  ///< has been resumable: further prompts may come

  void hold(const ThinkerRows& rows, std::int64_t reserve_count);
  void drop_sent();
  void end_segment();
};

/// Chunk 0 holds the rows of the prompt and the first after it (embed.prefill, hidden_states.output), the
/// marks, ids.all and ids.prompt; it goes out when there are more rows than the prompt has tokens, or at the
/// end. Each further chunk holds the rows of one step (embed.decode), usually one.
///
/// A resumable request may bring further prompts: several rows at once, or rows before the segment has any
/// output. They are held until the row after them or the segment's end, then sent as chunk 0 is, without the
/// marks. Its rows after a prompt come with hidden_states.output and ids.output.
class Thinker2TalkerAsyncChunk final : public PerRequestProcessor<ThinkerStream> {
 private:
  Result<Value*> step(const ChunkRequest& request, const Value& output, bool terminal) override;
};

}  // namespace stagewire::chunk::qwen3_omni
