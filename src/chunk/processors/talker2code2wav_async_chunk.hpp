// A talker to its code2wav, window by window while the talker still speaks; the same for both models.
#pragma once

#include "chunk/processors/code_window.hpp"
#include "chunk/processors/request_states.hpp"

namespace stagewire::chunk {

/// A request between two steps.
struct TalkerStream {
  CodeWindow window;
  Value payload;

  void end_segment() { *this = TalkerStream(); }
};

/// codes.audio is a window's codes, codebook by codebook, int64 [codebooks * frames];
/// meta.left_context_size its frames that were sent before; meta.right_holdback_size, where the decoder looks
/// ahead, its frames that will be sent again. A segment begins anew, without context.
class Talker2Code2WavAsyncChunk final : public PerRequestProcessor<TalkerStream> {
 public:
  Talker2Code2WavAsyncChunk(const CodecForm& form, const WindowSizes& sizes) : form_(form), sizes_(sizes) {}

 private:
  Result<Value*> process(const ChunkRequest& request, const Value& output, bool terminal) override;
  Value* payload_of(const CodeWindow::Window& window, Value& payload) const;

  CodecForm form_;
  WindowSizes sizes_;
  std::vector<std::int64_t> frames_;  ///< of the present step
};

}  // namespace stagewire::chunk
