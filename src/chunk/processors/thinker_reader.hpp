// The far end of the edge from a thinker to its talker.
#pragma once

#include "chunk/processors/chunk_fields.hpp"

namespace stagewire::chunk {

/// What tells the models' thinkers apart, for those who receive from them.
struct ThinkerForm {
  RowForm rows;
  /// Qwen3-Omni: a prompt comes as embed.prefill and hidden_states.output, with the first row after it in
  /// both, and with the talker's marks. Qwen2.5-Omni: the row after it is embed.decode.
  bool two_kinds = false;
};
extern const ThinkerForm kQwen3Thinker;
extern const ThinkerForm kQwen25Thinker;

/// What one chunk brings; views into it, nullptr for what it does not bring.
struct ThinkerChunk {
  const TensorView* prefill = nullptr;  ///< rows of a prompt; Qwen3-Omni: and the first after it
  const TensorView* hidden = nullptr;   ///< Qwen3-Omni: the other kind of the same rows
  const TensorView* decode = nullptr;   ///< rows after a prompt
  const Value::List* prompt_ids = nullptr;
  ChunkEnd end;
};

/// Takes the chunks of one request in their order. A chunk that does not follow from those before it is
/// `corrupt` and changes nothing. One thread at a time.
class ThinkerReader {
 public:
  ThinkerReader(const ThinkerForm& form, Path path, std::string request)
      : form_(form), path_(path), request_(std::move(request)) {}

  Result<ThinkerChunk> take(const Value& chunk);
  /// Rows of all chunks.
  std::int64_t row_count() const { return row_count_; }
  bool finished() const { return finished_; }

 private:
  Result<ThinkerChunk> read(const ChunkFields& fields) const;
  Status read_prompt(const ChunkFields& fields, ThinkerChunk& chunk) const;
  Status read_full(const ChunkFields& fields, ThinkerChunk& chunk) const;
  Status read_whole_prompt(const ChunkFields& fields, ThinkerChunk& chunk, std::int64_t prompt_count) const;

  const ThinkerForm form_;
  const Path path_;
  const std::string request_;
  std::int64_t chunk_count_ = 0;
  std::int64_t row_count_ = 0;
  bool finished_ = false;
};

}  // namespace stagewire::chunk
