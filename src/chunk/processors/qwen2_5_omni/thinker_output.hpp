// What Qwen2.5-Omni's thinker makes in a step: a row of hidden states for each token, under "latent".
#pragma once

#include "chunk/processors/model_output.hpp"

namespace stagewire::chunk::qwen2_5_omni {

inline constexpr std::int64_t kHiddenSize = 3584;
/// The talker's prompt is a start mark, a pad for each row of the thinker's prompt, and an end mark.
inline constexpr std::int64_t kMarksAroundPrompt = 2;

struct ThinkerRows {
  const TensorView* latent = nullptr;  ///< [count, 3584], bfloat16 or float32
  std::int64_t count = 0;              ///< 0 also when there is no output
};

Result<ThinkerRows> read_rows(const ChunkRequest& request, const Value& output, std::int64_t most);

}  // namespace stagewire::chunk::qwen2_5_omni
