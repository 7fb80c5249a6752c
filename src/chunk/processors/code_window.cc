#include "chunk/processors/code_window.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace stagewire::chunk {
namespace {

constexpr std::int64_t kMaxFrames = 100'000;

std::int64_t whole_blocks(std::int64_t frames, std::int64_t block) {
  return (frames + block - 1) / block * block;
}

}  // namespace

Result<WindowSizes> WindowSizes::from(const ChunkProcessorOptions& options, const CodecForm& form) {
  const auto check = [](std::string_view key, int frames, int least) -> Status {
    if (frames >= least && frames <= kMaxFrames) return {};
    return base::error(ErrorCode::invalid_argument, key, " is ", frames, ", allowed are ", least, " to ",
                       kMaxFrames, " frames");
  };
  for (const Status& status : {check("codec_chunk_frames", options.codec_chunk_frames, 1),
                               check("codec_left_context_frames", options.codec_left_context_frames, 0),
                               check("initial_codec_chunk_frames", options.initial_codec_chunk_frames, 0)}) {
    if (!status.ok()) return status.error();
  }
  return WindowSizes{whole_blocks(options.codec_chunk_frames, form.block_frames),
                     whole_blocks(options.codec_left_context_frames, form.block_frames),
                     whole_blocks(options.initial_codec_chunk_frames, form.block_frames)};
}

void CodeWindow::append(std::span<const std::int64_t> frames, const CodecForm& form) {
  const auto codebooks = static_cast<std::size_t>(form.codebook_count);
  for (std::size_t at = 0; at < frames.size(); at += codebooks) {
    const auto frame = frames.subspan(at, codebooks);
    if (!is_audio(frame, form)) continue;
    frames_.insert(frames_.end(), frame.begin(), frame.end());
    ++new_count_;
  }
}

std::int64_t CodeWindow::fresh_count(const WindowSizes& sizes, const CodecForm& form, bool at_end) const {
  if (at_end) return new_count_;
  const std::int64_t wanted = window_index_ == 0 && sizes.initial > 0 ? sizes.initial : sizes.chunk;
  const std::int64_t usable = new_count_ - form.lookahead_frames;
  return usable < wanted ? 0 : usable / form.block_frames * form.block_frames;
}

std::optional<CodeWindow::Window> CodeWindow::take(const WindowSizes& sizes, const CodecForm& form,
                                                   bool at_end) {
  const std::int64_t fresh = fresh_count(sizes, form, at_end);
  if (fresh == 0) return std::nullopt;
  // The second window has the whole initial one before it, whatever left context is configured.
  const std::int64_t most_left = window_index_ == 1 && sizes.initial > 0 ? sizes.initial : sizes.left_context;
  const std::int64_t left = std::min(context_count_, most_left);
  const std::int64_t width = left + new_count_;
  const std::int64_t holdback = new_count_ - fresh;

  const auto codebooks = static_cast<std::size_t>(form.codebook_count);
  const auto frame_count = static_cast<std::size_t>(width);
  const std::int64_t* const source =
      frames_.data() + static_cast<std::size_t>(context_count_ - left) * codebooks;
  codes_.resize(frame_count * codebooks);
  for (std::size_t frame = 0; frame < frame_count; ++frame) {
    for (std::size_t book = 0; book < codebooks; ++book)
      codes_[book * frame_count + frame] = source[frame * codebooks + book];
  }

  const std::int64_t kept = std::min(context_count_ + fresh, sizes.most_context());
  const auto dropped = (context_count_ + fresh - kept) * form.codebook_count;
  frames_.erase(frames_.begin(), frames_.begin() + dropped);
  context_count_ = kept;
  new_count_ = holdback;
  ++window_index_;
  return Window{codes_, left, holdback};
}

}  // namespace stagewire::chunk
