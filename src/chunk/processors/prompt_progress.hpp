// Which of a thinker's rows belong to a prompt, and when a chunk goes out; the same for both models.
#pragma once

#include "stagewire/chunk.hpp"

namespace stagewire::chunk {

/// What happens with the rows of one step.
struct StepPlan {
  std::int64_t prompt_rows = 0;  ///< the step's first ones; held unless `send`
  std::int64_t reply_rows = 0;   ///< those after them
  bool with_prompt = false;      ///< the chunk holds a prompt: rows that are held, or this step's
  bool send = false;
};

/// One request. A prompt is held until the first row after it, or the end; rows after a prompt go at once.
/// The first prompt has as many rows as the request has prompt tokens. A request that has been resumable may
/// bring further ones: several rows in a step, or rows before the segment has any output.
class PromptProgress {
 public:
  /// Most rows that a step may bring.
  std::int64_t most_rows(const ChunkRequest& request) const;
  StepPlan plan(const ChunkRequest& request, std::int64_t row_count, bool terminal) const;
  void apply(const ChunkRequest& request, const StepPlan& plan);
  /// What was held is gone.
  void end_segment() { held_ = 0; }

  bool begun() const { return begun_; }          ///< chunk 0 went out
  bool streaming() const { return streaming_; }  ///< has been resumable
  std::int64_t held() const { return held_; }    ///< rows of a prompt that wait

 private:
  std::int64_t held_ = 0;
  bool begun_ = false;
  bool streaming_ = false;
};

}  // namespace stagewire::chunk
