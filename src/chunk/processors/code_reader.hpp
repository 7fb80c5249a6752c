// The far end of the edge from a talker to its code2wav.
#pragma once

#include "chunk/processors/chunk_fields.hpp"
#include "chunk/processors/code_window.hpp"

namespace stagewire::chunk {

/// What one chunk brings.
struct CodeChunk {
  std::span<const std::int64_t>
      codes;  ///< of the frames that are new, frame by frame; valid until the next take()
  ChunkEnd end;
};

/// Takes the chunks of one request in their order: strips left context and held-back frames, both of which
/// must be what other chunks have as new. A chunk that does not follow from those before it is `corrupt` and
/// changes nothing. One thread at a time.
class CodeReader {
 public:
  CodeReader(const CodecForm& form, const WindowSizes& sizes, Path path, std::string request)
      : form_(form), sizes_(sizes), path_(path), request_(std::move(request)) {}

  Result<CodeChunk> take(const Value& chunk);
  /// New frames of all chunks.
  std::int64_t frame_count() const { return frame_count_; }
  bool finished() const { return finished_; }

 private:
  struct Window {
    std::int64_t left = 0;
    std::int64_t fresh = 0;
    std::int64_t holdback = 0;
  };
  Result<Window> read_window(const ChunkFields& fields, bool is_last);
  Result<Window> read_sizes(const ChunkFields& fields, std::int64_t frames, bool is_last) const;
  Status read_list(const ChunkFields& fields, bool is_last);
  Status check_codes(const ChunkFields& fields) const;
  Status check_overlap(const ChunkFields& fields, const Window& window) const;
  void remember(const Window& window);

  const CodecForm form_;
  const WindowSizes sizes_;
  const Path path_;
  const std::string request_;
  std::vector<std::int64_t> flat_;      ///< the chunk's codes as they came
  std::vector<std::int64_t> frames_;    ///< and frame by frame
  std::vector<std::int64_t> context_;   ///< the last new frames of this segment, as many as may come again
  std::vector<std::int64_t> expected_;  ///< frames that were held back: the next chunk goes on with them
  std::int64_t chunk_count_ = 0;
  std::int64_t frame_count_ = 0;
  bool finished_ = false;
};

}  // namespace stagewire::chunk
