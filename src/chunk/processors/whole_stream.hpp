// Where a full-payload processor stands in a request's stream of rows.
#pragma once

#include <algorithm>

#include "chunk/processors/model_output.hpp"

namespace stagewire::chunk {

/// Row i of a request belongs to token i: of the prompt, then of the output. A payload holds the rows of one
/// segment; those before it went with earlier ones.
class WholeStream {
 public:
  /// Prompt tokens that belong to this segment.
  std::int64_t prompt_count(const ChunkRequest& request) const {
    return std::max<std::int64_t>(std::ssize(request.prompt_ids) - earlier_, 0);
  }
  std::int64_t most_rows(const ChunkRequest& request) const {
    return std::max<std::int64_t>(prompt_count(request) - count_, 0) + kMaxDecodeRows;
  }
  std::size_t earlier() const { return static_cast<std::size_t>(earlier_); }
  std::int64_t count() const { return count_; }

  void add(std::int64_t rows) { count_ += rows; }
  void begin_segment() {
    earlier_ += count_;
    count_ = 0;
  }

 private:
  std::int64_t earlier_ = 0;  ///< rows of earlier segments
  std::int64_t count_ = 0;    ///< rows of this one
};

}  // namespace stagewire::chunk
