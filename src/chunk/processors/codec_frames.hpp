// The codec frames that a talker makes, and what a model's codes look like.
#pragma once

#include <span>
#include <vector>

#include "chunk/processors/model_output.hpp"

namespace stagewire::chunk {

/// What distinguishes the talkers of the models.
struct CodecForm {
  std::int64_t codebook_count = 1;  ///< codes of a frame
  std::int64_t code_count = 0;      ///< codes are 0 .. code_count - 1
  std::span<const std::int64_t>
      control_ids;                    ///< as the first code: start, pad, end; such a frame is no audio
  bool zero_is_no_frame = false;      ///< a frame of zeros only stands for "none"
  std::int64_t block_frames = 1;      ///< the decoder works in blocks of so many frames
  std::int64_t lookahead_frames = 0;  ///< and sees so many frames ahead
};

/// 16 codebooks at 12.5 Hz.
extern const CodecForm kQwen3Codec;
/// One codebook at 50 Hz. Its decoder makes two mel frames of a code, in blocks of 12 codes (24 mel frames),
/// and looks 20 mel frames ahead.
extern const CodecForm kQwen25Codec;

inline constexpr std::int64_t kQwen25StartId = 8293;
inline constexpr std::int64_t kQwen25PadId = 8292;
inline constexpr std::int64_t kQwen25EndId = 8294;

/// Whether this frame is audio: no control frame, and not "none". Its codes were checked.
bool is_audio(std::span<const std::int64_t> frame, const CodecForm& form);

/// Appends all frames of codes.audio to `frames`, frame by frame: int64 [n, codebooks], for one codebook [n],
/// too. None has no frames. An error, after which `frames` is as it was, for a missing or misshapen tensor
/// and for a code out of its range. With `allow_open`, -1 is a code: a place whose code is not known yet.
Status append_frames(const ChunkRequest& request, const Value& output, const CodecForm& form, bool allow_open,
                     std::vector<std::int64_t>& frames);

}  // namespace stagewire::chunk
