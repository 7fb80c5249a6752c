// Parts that the payloads of all edges have, with the names and in the order of OmniPayloadStruct.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "stagewire/chunk.hpp"

namespace stagewire::chunk {

/// Token ids as a list.
Value::List id_list(std::span<const std::int64_t> first, std::span<const std::int64_t> then = {});

/// The ids that belong to the rows of a prompt.
struct SegmentIds {
  Value::List all;  ///< prompt and output
  Value::List prompt;

  static SegmentIds all_of(const ChunkRequest& request);
  /// Those after the ids of earlier segments, which had so many of the prompt's.
  static SegmentIds after(const ChunkRequest& request, std::size_t earlier_count);
  /// Those of a further segment, whose prompt has `row_count` rows.
  static SegmentIds of_prompt(const ChunkRequest& request, std::int64_t row_count);
};

/// The speaker and the language of a request, kept because the request's views end with the call.
class Voice {
 public:
  /// Whether it is another one than before: payloads that show it are to be built anew.
  bool take(const ChunkRequest& request);
  /// "speaker" and "language", where they are known.
  void append_to(Value::Map& payload) const;

 private:
  std::string speaker_;
  std::string language_;
};

}  // namespace stagewire::chunk
