#include "chunk/processors/codec_frames.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "payload/layout.hpp"

namespace stagewire::chunk {
namespace {

constexpr std::string_view kKey = "codes.audio";
// Pad, start and end, once as the checkpoint numbers them and once as the model's class does by default.
constexpr std::array<std::int64_t, 6> kQwen3ControlIds{2148, 2149, 2150, 4196, 4197, 4198};
constexpr std::array<std::int64_t, 3> kQwen25ControlIds{kQwen25PadId, kQwen25StartId, kQwen25EndId};

std::string expected_text(const CodecForm& form) {
  return base::text("int64 [frames, ", form.codebook_count, "]",
                    form.codebook_count == 1 ? " or [frames]" : "", " with at most ", kMaxDecodeRows,
                    " frames in this step");
}

bool is_control(std::int64_t code, const CodecForm& form) {
  return std::find(form.control_ids.begin(), form.control_ids.end(), code) != form.control_ids.end();
}

Status check_frame(const ChunkRequest& request, std::span<const std::int64_t> frame, const CodecForm& form,
                   bool allow_open) {
  if (is_control(frame[0], form) || (allow_open && frame[0] == -1)) return {};
  for (std::size_t i = 0; i < frame.size(); ++i) {
    if (frame[i] >= 0 && frame[i] < form.code_count) continue;
    return bad_output(request, kKey,
                      base::text("has the code ", frame[i], " in codebook ", i, ", allowed are 0 to ",
                                 form.code_count - 1));
  }
  return {};
}

}  // namespace

constinit const CodecForm kQwen3Codec{16, 2048, kQwen3ControlIds, true, 1, 0};
constinit const CodecForm kQwen25Codec{1, kQwen25PadId, kQwen25ControlIds, false, 12, 10};

bool is_audio(std::span<const std::int64_t> frame, const CodecForm& form) {
  if (is_control(frame[0], form)) return false;
  return !form.zero_is_no_frame ||
         std::any_of(frame.begin(), frame.end(), [](auto code) { return code != 0; });
}

Status append_frames(const ChunkRequest& request, const Value& output, const CodecForm& form, bool allow_open,
                     std::vector<std::int64_t>& frames) {
  if (Status status = check_map(request, output); !status.ok()) return status;
  if (output.is_none()) return {};
  const auto found = find_tensor(request, output, "codes", "audio");
  if (!found.ok()) return found.error();
  const TensorView* const codes = *found;
  if (codes == nullptr) return bad_output(request, kKey, "is missing, expected " + expected_text(form));
  const auto& shape = codes->shape;
  const bool fits = codes->dtype == DType::int64 &&
                    ((shape.size() == 2 && shape[1] == form.codebook_count) ||
                     (shape.size() == 1 && form.codebook_count == 1)) &&
                    shape[0] <= kMaxDecodeRows;
  if (!fits)
    return bad_output(request, kKey, "is " + form_text(*codes) + ", expected " + expected_text(form));

  const auto codebooks = static_cast<std::size_t>(form.codebook_count);
  const std::size_t old_count = frames.size();
  frames.resize(old_count + static_cast<std::size_t>(shape[0]) * codebooks);
  const auto fresh = std::span(frames).subspan(old_count);
  payload::copy_row_major(*codes, fresh.size_bytes(), reinterpret_cast<std::byte*>(fresh.data()));
  for (std::size_t at = 0; at < fresh.size(); at += codebooks) {
    if (Status status = check_frame(request, fresh.subspan(at, codebooks), form, allow_open); !status.ok()) {
      frames.resize(old_count);
      return status;
    }
  }
  return {};
}

}  // namespace stagewire::chunk
