// Cutting a stream of codec frames into windows: new frames, with frames before them that the decoder has had
// already (left context) and frames after them that it will get again (look-ahead).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "chunk/processors/codec_frames.hpp"

namespace stagewire::chunk {

/// Frames of the windows, in whole blocks of the decoder (rounded up).
struct WindowSizes {
  std::int64_t chunk = 0;         ///< new frames
  std::int64_t left_context = 0;  ///< most frames before them
  std::int64_t initial = 0;       ///< new frames of the first window; 0 = as the others

  /// `invalid_argument` for a size that is none.
  static Result<WindowSizes> from(const ChunkProcessorOptions& options, const CodecForm& form);
  /// Most left context that a window can have.
  std::int64_t most_context() const { return std::max(left_context, initial); }
};

/// One stream's frames. A window begins where the last one's new frames ended.
class CodeWindow {
 public:
  struct Window {
    std::span<const std::int64_t> codes;  ///< codebook by codebook; valid until the next call
    std::int64_t left_context = 0;        ///< frames at its beginning
    std::int64_t holdback = 0;            ///< frames at its end that come again as new ones
  };

  /// Frames that are audio are kept, others dropped.
  void append(std::span<const std::int64_t> frames, const CodecForm& form);
  /// The next window: when enough new frames and what the decoder looks ahead are there. A step that brought
  /// several frames may make it longer. At the end whatever is new, nullopt when nothing is.
  std::optional<Window> take(const WindowSizes& sizes, const CodecForm& form, bool at_end);

 private:
  std::int64_t fresh_count(const WindowSizes& sizes, const CodecForm& form, bool at_end) const;

  std::vector<std::int64_t> frames_;  ///< frame by frame: those kept as context, then the new ones
  std::int64_t context_count_ = 0;
  std::int64_t new_count_ = 0;
  std::int64_t window_index_ = 0;
  std::vector<std::int64_t> codes_;  ///< of the last window
};

}  // namespace stagewire::chunk
