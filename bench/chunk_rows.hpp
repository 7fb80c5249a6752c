// The traffic of `bench chunks`: what Qwen3-Omni's thinker makes, each row saying when it was made and which
// one of its request it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "stagewire/payload.hpp"

namespace stagewire::bench {

inline constexpr std::int64_t kRowWidth = 2048;
inline constexpr std::size_t kRowSize = 2 * kRowWidth;  ///< bytes; bfloat16

/// The name of stream `stream` in the `run`-th set of streams: the request's external id.
std::string request_id(std::uint32_t run, std::uint32_t stream);

/// Rows as a model holds them: [count, 2048] bfloat16. The first bytes of the first row are a stamp, the last
/// ones of each row its number.
class ModelRows {
 public:
  explicit ModelRows(std::int64_t count);
  void number_from(std::uint64_t first);
  void stamp(double now);
  TensorView view() const;
  std::size_t size() const { return bytes_.size(); }

 private:
  std::vector<std::byte> bytes_;
};

/// What a thinker makes in a step: the layers 0 and 24; in the first one the talker's marks, too. Views
/// `rows`, and memory of its own that is never freed.
Value thinker_output(const ModelRows& rows, bool with_marks);
/// The payload that the async-chunk processor makes of a prompt and the row after it.
Value first_chunk_payload(const ModelRows& embedding, const ModelRows& hidden);

/// What arrived in a chunk.
struct RowsFound {
  double stamp = 0;
  std::uint64_t count = 0;  ///< 0: a chunk that only tells the end
  bool last = false;        ///< of its request
};
RowsFound find_rows(const Value& payload);
/// Ends the program unless the chunk's rows are those from number `first` on.
void check_rows(const Value& payload, std::uint64_t first);

}  // namespace stagewire::bench
