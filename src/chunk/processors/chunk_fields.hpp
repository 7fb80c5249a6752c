// Reading what a peer sent: every field is checked against what the edge carries.
#pragma once

#include <optional>
#include <string>

#include "chunk/processors/model_output.hpp"

namespace stagewire::chunk {

/// How an edge was configured: async_chunk true or false.
enum class Path { chunks, full_payload };

/// What ends with a chunk: meta.finished and meta.is_segment_finished.
struct ChunkEnd {
  bool finished = false;          ///< the stream
  bool segment_finished = false;  ///< this segment of it

  bool any() const { return finished || segment_finished; }
};

/// One delivered chunk of a request, for its reader. Errors are `corrupt` and name request, chunk and key.
class ChunkFields {
 public:
  ChunkFields(const Value& chunk, std::string_view request, std::int64_t index)
      : chunk_(chunk), request_(request), index_(index) {}

  Error wrong(std::string_view key, std::string_view what) const;
  /// Booleans, or bool tensors of one element; what is not there is false.
  Result<ChunkEnd> end() const;
  bool has(std::string_view group, std::string_view name) const { return find(group, name) != nullptr; }

  /// [rows, width] of the form, with `least` to `most` rows.
  Result<const TensorView*> rows(std::string_view group, std::string_view name, const RowForm& form,
                                 std::int64_t least, std::int64_t most) const;
  /// A tensor of exactly this dtype and shape.
  Status exactly(std::string_view group, std::string_view name, DType dtype,
                 std::initializer_list<std::int64_t> shape) const;
  /// A list of integers.
  Result<const Value::List*> integers(std::string_view group, std::string_view name) const;
  /// From 0 to `most`.
  Result<std::int64_t> integer(std::string_view group, std::string_view name, std::int64_t most) const;
  /// A value in a group; with an empty group the chunk's own.
  const Value* find(std::string_view group, std::string_view name) const;
  Result<const TensorView*> tensor(std::string_view group, std::string_view name) const;

 private:
  Result<bool> flag(std::string_view name) const;

  const Value& chunk_;
  std::string_view request_;
  std::int64_t index_;
};

}  // namespace stagewire::chunk
