#include "chunk/processors/talker2code2wav_full_payload.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace stagewire::chunk {

Result<Value*> Talker2Code2WavFullPayload::process(const ChunkRequest& request, const Value& output,
                                                   bool terminal) {
  WholeTalkerStream* const known = states_.find(request.external_id);
  if (known != nullptr && known->sent) known->end_segment();
  frames_.clear();
  if (Status status = append_frames(request, output, form_, allow_open_, frames_); !status.ok())
    return status.error();
  if (!terminal) {
    auto& frames = states_.get(request.external_id).frames;
    frames.insert(frames.end(), frames_.begin(), frames_.end());
    return nullptr;
  }

  std::vector<std::int64_t> frames = known != nullptr ? known->frames : std::vector<std::int64_t>();
  frames.insert(frames.end(), frames_.begin(), frames_.end());
  const auto audio = audio_of(request, std::move(frames));
  if (!audio.ok()) return audio.error();
  const auto codebooks = static_cast<std::size_t>(form_.codebook_count);
  Value::List codes;
  codes.reserve(audio->size());
  for (std::size_t book = 0; book < codebooks; ++book) {
    for (std::size_t at = book; at < audio->size(); at += codebooks) codes.emplace_back((*audio)[at]);
  }
  WholeTalkerStream& stream = states_.get(request.external_id);
  stream.payload = Value::Map{{"codes", Value::Map{{"audio", std::move(codes)}}}, {"meta", Value::Map{}}};
  stream.sent = true;
  return &stream.payload;
}

Result<std::vector<std::int64_t>> Qwen3Talker2Code2WavFullPayload::audio_of(
    const ChunkRequest& request, std::vector<std::int64_t> frames) const {
  const auto codebooks = static_cast<std::size_t>(form().codebook_count);
  const auto is_code = [&](std::int64_t id) { return id >= 0 && id < form().code_count; };
  const std::size_t frame_count = frames.size() / codebooks;
  const std::size_t aligned = std::min(frame_count, request.output_ids.size());
  const auto ids = request.output_ids.last(aligned);
  const auto last_frames = std::span<const std::int64_t>(frames).last(aligned * codebooks);
  std::vector<std::int64_t> audio;
  for (std::size_t i = 0; i < aligned; ++i) {
    const auto frame = last_frames.subspan(i * codebooks, codebooks);
    if (is_code(ids[i]) && is_code(frame[0])) audio.insert(audio.end(), frame.begin(), frame.end());
  }
  if (!audio.empty()) return audio;
  return bad_output(request, "codes.audio",
                    base::text("has no frame of audio among int64 [", frame_count, ", ", codebooks, "] with ",
                               request.output_ids.size(), " output ids"));
}

Result<std::vector<std::int64_t>> Qwen25Talker2Code2WavFullPayload::audio_of(
    const ChunkRequest& request, std::vector<std::int64_t> frames) const {
  const std::size_t made = frames.size();
  std::erase_if(frames, [&](const std::int64_t& code) { return !is_audio({&code, 1}, form()); });
  const auto open = std::find(frames.begin(), frames.end(), -1);
  const auto after = std::find_if(open, frames.end(), [](std::int64_t code) { return code != -1; });
  if (after != frames.end()) {
    return bad_output(request, "codes.audio",
                      base::text("has the code ", *after,
                                 " after a place without one (-1), which stand at the ", "end only"));
  }
  if (open == frames.begin())
    return bad_output(request, "codes.audio", base::text("has no code of audio among int64 [", made, "]"));
  std::fill(open, frames.end(), *(open - 1));
  return frames;
}

}  // namespace stagewire::chunk
