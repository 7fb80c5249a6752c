#include "chunk/processors/code_reader.hpp"

#include <algorithm>
#include <cstring>

#include "base/text.hpp"

namespace stagewire::chunk {
namespace {

constexpr std::string_view kKey = "codes.audio";

// Codebook by codebook to frame by frame.
void transpose(std::span<const std::int64_t> flat, std::size_t codebooks, std::vector<std::int64_t>& frames) {
  const std::size_t count = flat.size() / codebooks;
  frames.resize(flat.size());
  for (std::size_t book = 0; book < codebooks; ++book) {
    for (std::size_t frame = 0; frame < count; ++frame)
      frames[frame * codebooks + book] = flat[book * count + frame];
  }
}

}  // namespace

Result<CodeChunk> CodeReader::take(const Value& chunk) {
  const ChunkFields fields(chunk, request_, chunk_count_);
  if (finished_) return fields.wrong("meta.finished", "was set in a chunk before this one");
  const auto end = fields.end();
  if (!end.ok()) return end.error();
  Window window;
  if (fields.has("codes", "audio") || path_ == Path::full_payload) {
    const auto read = read_window(fields, end->any());
    if (!read.ok()) return read.error();
    window = *read;
  } else if (!end->any()) {
    return fields.wrong(kKey, "is missing and nothing ends with this chunk");
  } else if (!expected_.empty()) {
    return fields.wrong(
        kKey, base::text("is missing at the end, expected ", std::ssize(expected_) / form_.codebook_count,
                         " frames held back before"));
  }
  ++chunk_count_;
  frame_count_ += window.fresh;
  const auto codes = std::span<const std::int64_t>(frames_).subspan(
      static_cast<std::size_t>(window.left * form_.codebook_count),
      static_cast<std::size_t>(window.fresh * form_.codebook_count));
  finished_ = end->finished;
  if (end->any()) {
    context_.clear();
    expected_.clear();
  } else {
    remember(window);
  }
  return CodeChunk{codes, *end};
}

Result<CodeReader::Window> CodeReader::read_window(const ChunkFields& fields, bool is_last) {
  const auto codebooks = static_cast<std::size_t>(form_.codebook_count);
  if (path_ == Path::full_payload) {
    if (Status status = read_list(fields, is_last); !status.ok()) return status.error();
  } else {
    const auto tensor = fields.tensor("codes", "audio");
    if (!tensor.ok()) return tensor.error();
    const TensorView& codes = **tensor;
    if (codes.dtype != DType::int64 || codes.shape.size() != 1)
      return fields.wrong(kKey, "is " + form_text(codes) + ", expected int64 [codes]");
    flat_.resize(static_cast<std::size_t>(codes.shape[0]));
    if (!flat_.empty()) std::memcpy(flat_.data(), codes.data, flat_.size() * sizeof(std::int64_t));
  }
  if (flat_.empty() || flat_.size() % codebooks != 0) {
    return fields.wrong(kKey, base::text("has ", flat_.size(), " codes, expected those of whole frames of ",
                                         codebooks, " and of one at least"));
  }
  if (Status status = check_codes(fields); !status.ok()) return status.error();
  transpose(flat_, codebooks, frames_);
  const auto frame_count = static_cast<std::int64_t>(flat_.size() / codebooks);
  if (path_ == Path::full_payload) return Window{0, frame_count, 0};
  auto window = read_sizes(fields, frame_count, is_last);
  if (!window.ok()) return window;
  if (Status status = check_overlap(fields, *window); !status.ok()) return status.error();
  return window;
}

Result<CodeReader::Window> CodeReader::read_sizes(const ChunkFields& fields, std::int64_t frames,
                                                  bool is_last) const {
  Window window;
  const std::int64_t known = std::ssize(context_) / form_.codebook_count;
  const auto left = fields.integer("meta", "left_context_size", std::min(known, frames - 1));
  if (!left.ok()) return left.error();
  window.left = *left;
  if (form_.lookahead_frames > 0) {
    const auto holdback =
        fields.integer("meta", "right_holdback_size", is_last ? 0 : frames - 1 - window.left);
    if (!holdback.ok()) return holdback.error();
    window.holdback = *holdback;
  }
  window.fresh = frames - window.left - window.holdback;
  return window;
}

Status CodeReader::read_list(const ChunkFields& fields, bool is_last) {
  if (!is_last) return fields.wrong("meta.finished", "is not set, expected one payload at the end");
  const auto list = fields.integers("codes", "audio");
  if (!list.ok()) return list.error();
  flat_.clear();
  for (const Value& code : **list) flat_.push_back(*code.get_if<std::int64_t>());
  return {};
}

Status CodeReader::check_codes(const ChunkFields& fields) const {
  const auto bad = std::find_if(flat_.begin(), flat_.end(),
                                [&](std::int64_t code) { return code < 0 || code >= form_.code_count; });
  if (bad == flat_.end()) return {};
  return fields.wrong(kKey, base::text("has the code ", *bad, ", allowed are 0 to ", form_.code_count - 1));
}

Status CodeReader::check_overlap(const ChunkFields& fields, const Window& window) const {
  const std::int64_t left_codes = window.left * form_.codebook_count;
  if (!std::equal(frames_.begin(), frames_.begin() + left_codes, context_.end() - left_codes))
    return fields.wrong(
        kKey, base::text("has ", window.left, " frames of left context that are not the last ones"));
  // Held-back frames may be held back again.
  const std::int64_t later_codes = (window.fresh + window.holdback) * form_.codebook_count;
  if (later_codes >= std::ssize(expected_) &&
      std::equal(expected_.begin(), expected_.end(), frames_.begin() + left_codes))
    return {};
  return fields.wrong(kKey,
                      base::text("does not go on with the ", std::ssize(expected_) / form_.codebook_count,
                                 " frames held back before"));
}

void CodeReader::remember(const Window& window) {
  const std::int64_t end_of_fresh = (window.left + window.fresh) * form_.codebook_count;
  expected_.assign(frames_.begin() + end_of_fresh,
                   frames_.begin() + end_of_fresh + window.holdback * form_.codebook_count);
  context_.insert(context_.end(), frames_.begin() + window.left * form_.codebook_count,
                  frames_.begin() + end_of_fresh);
  const std::int64_t surplus = std::ssize(context_) - sizes_.most_context() * form_.codebook_count;
  if (surplus > 0) context_.erase(context_.begin(), context_.begin() + surplus);
}

}  // namespace stagewire::chunk
