// Qwen3-Omni's thinker to its talker in one payload, when the thinker has ended.
#pragma once

#include "chunk/processors/payload_parts.hpp"
#include "chunk/processors/qwen3_omni/thinker_output.hpp"
#include "chunk/processors/request_states.hpp"
#include "chunk/processors/row_buffer.hpp"
#include "chunk/processors/whole_stream.hpp"

namespace stagewire::chunk::qwen3_omni {

struct WholeThinkerStream {
  WholeStream rows;
  RowBuffer embedding;
  RowBuffer hidden;
  Marks marks;
  Voice voice;
  Value payload;
  bool sent = false;

  void end_segment();
};

/// All rows but the last, which belongs to the stop token (a single one is kept): embed.prefill and
/// hidden_states.output, the marks, ids.all and ids.prompt. An end without rows or marks is an error: the
/// talker would wait for ever.
class Thinker2TalkerFullPayload final : public PerRequestProcessor<WholeThinkerStream> {
 private:
  Result<Value*> process(const ChunkRequest& request, const Value& output, bool terminal) override;
};

}  // namespace stagewire::chunk::qwen3_omni
