// What Qwen3-Omni's thinker makes in a step: for each token a row of word embeddings (layer 0) and a row of
// the layer that the talker listens to (24), and three embeddings of the talker's own marks.
#pragma once

#include <array>

#include "chunk/processors/kept_tensor.hpp"
#include "chunk/processors/model_output.hpp"

namespace stagewire::chunk::qwen3_omni {

inline constexpr int kEmbeddingLayer = 0;
inline constexpr int kAcceptHiddenLayer = 24;
inline constexpr std::int64_t kHiddenSize = 2048;

struct ThinkerRows {
  const TensorView* embedding = nullptr;  ///< [count, 2048] bfloat16
  const TensorView* hidden = nullptr;     ///< the same
  std::int64_t count = 0;                 ///< 0 also when there is no output
};

/// Both kinds of rows, as many of the one as of the other, `most` at most.
Result<ThinkerRows> read_rows(const ChunkRequest& request, const Value& output, std::int64_t most);

/// embed.tts_bos, tts_eos and tts_pad: [1, 1, 2048] bfloat16 each.
inline constexpr std::array<std::string_view, 3> kMarks{"tts_bos", "tts_eos", "tts_pad"};
using MarkViews = std::array<const TensorView*, 3>;  ///< nullptr: not in this output
using Marks = std::array<KeptTensor, 3>;

Result<MarkViews> read_marks(const ChunkRequest& request, const Value& output);

/// An error that names the first mark that neither this output has nor `kept`, which may be nullptr.
Status check_marks(const ChunkRequest& request, const MarkViews& marks, const Marks* kept);

/// Those that this output has replace those that are kept.
void keep_marks(const MarkViews& marks, Marks& kept);

/// "tts_bos" and so on, all of which are kept.
void append_marks(const Marks& kept, Value::Map& embed);

}  // namespace stagewire::chunk::qwen3_omni
