// Reading what a model made in a step: a nested map ({"embed": {"tts_bos": tensor}}), or the same with dotted
// keys ({"embed.tts_bos": tensor}). Everything is checked before anything is kept.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "stagewire/chunk.hpp"

namespace stagewire::chunk {

/// Most rows that a step may bring once the prompt is through: one, or a few that were guessed at once.
inline constexpr std::int64_t kMaxDecodeRows = 64;

/// The rows that a stage makes: tensors of [rows, width].
struct RowForm {
  std::int64_t width = 0;
  std::span<const DType> dtypes;  ///< those that are accepted, of static storage
};

/// `invalid_argument` that names the request's ids and the key.
Error bad_output(const ChunkRequest& request, std::string_view key, std::string_view what);

/// "bfloat16 [3, 2048]"
std::string form_text(const TensorView& tensor);
/// "bfloat16 [rows, 2048]"
std::string form_text(const RowForm& form);

/// An error unless the output is a map or None.
Status check_map(const ChunkRequest& request, const Value& output);

/// The tensor under `group` and `name`, nullptr when there is none; an error when it is no tensor, or one
/// whose fields do not fit each other.
Result<const TensorView*> find_tensor(const ChunkRequest& request, const Value& output,
                                      std::string_view group, std::string_view name);

/// The same for a key that stands in no group.
Result<const TensorView*> find_tensor(const ChunkRequest& request, const Value& output, std::string_view key);

/// The hidden states after a layer: hidden_states.layers[layer], its key an integer or its digits, or
/// hidden_states.layer_N.
Result<const TensorView*> find_layer(const ChunkRequest& request, const Value& output, int layer);

/// The number of rows of a tensor of this form; an error that names both shapes when it has another, or more
/// rows than `most`, or is missing (nullptr).
Result<std::int64_t> count_rows(const ChunkRequest& request, std::string_view key, const TensorView* tensor,
                                const RowForm& form, std::int64_t most);

}  // namespace stagewire::chunk
