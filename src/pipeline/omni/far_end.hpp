// The receiving side of an edge: every chunk is read, and every byte compared with what the sender must have
// made.
#pragma once

#include <memory>
#include <string>

#include "chunk/processors/code_reader.hpp"
#include "chunk/processors/thinker_reader.hpp"
#include "pipeline/omni/contents.hpp"

namespace stagewire::pipeline::omni {

/// What is expected of one request.
struct ExpectedStream {
  std::uint64_t request = 0;  ///< its number, by which its contents are known
  std::string external_id;
  std::int64_t prompt_tokens = 0;
  std::int64_t row_count = 0;    ///< that the thinker makes, the prompt's among them
  std::int64_t frame_count = 0;  ///< that the talker makes
  chunk::Path path = chunk::Path::chunks;
};

/// The chunks of one request, in their order; one thread at a time.
class FarEnd {
 public:
  virtual ~FarEnd() = default;
  /// `corrupt` when the chunk is not what the sender must have made, names the first byte or number that
  /// differs, or says what is missing when it is the last one.
  virtual Status take(const Value& payload) = 0;
  virtual bool finished() const = 0;
  /// From a thinker: rows after the prompt. From a talker: frames.
  virtual std::int64_t received() const = 0;
};

std::unique_ptr<FarEnd> make_thinker_far_end(const Contents& contents, const ExpectedStream& expected);
std::unique_ptr<FarEnd> make_talker_far_end(const Contents& contents, const ExpectedStream& expected,
                                            const chunk::WindowSizes& sizes);

}  // namespace stagewire::pipeline::omni
