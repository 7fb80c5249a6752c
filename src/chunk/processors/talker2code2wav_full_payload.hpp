// A talker to its code2wav in one payload, when the talker has ended.
#pragma once

#include "chunk/processors/codec_frames.hpp"
#include "chunk/processors/request_states.hpp"

namespace stagewire::chunk {

struct WholeTalkerStream {
  std::vector<std::int64_t> frames;  ///< frame by frame, those that are no audio, too
  Value payload;
  bool sent = false;

  void end_segment() { *this = WholeTalkerStream(); }
};

/// codes.audio is a list of integers, codebook by codebook. An end without a frame of audio is an error:
/// code2wav would wait for ever. How the frames of audio are told from others is the model's.
class Talker2Code2WavFullPayload : public PerRequestProcessor<WholeTalkerStream> {
 protected:
  Talker2Code2WavFullPayload(const CodecForm& form, bool allow_open) : form_(form), allow_open_(allow_open) {}

  /// The codes of the frames that are audio, frame by frame; an error when the frames do not make a stream.
  virtual Result<std::vector<std::int64_t>> audio_of(const ChunkRequest& request,
                                                     std::vector<std::int64_t> frames) const = 0;
  const CodecForm& form() const { return form_; }

 private:
  Result<Value*> process(const ChunkRequest& request, const Value& output, bool terminal) final;

  const CodecForm form_;
  const bool allow_open_;
  std::vector<std::int64_t> frames_;  ///< of the present step
};

/// Qwen3-Omni: the last output ids belong to the last frames. A frame is audio when both its id and its first
/// code are codes.
class Qwen3Talker2Code2WavFullPayload final : public Talker2Code2WavFullPayload {
 public:
  Qwen3Talker2Code2WavFullPayload() : Talker2Code2WavFullPayload(kQwen3Codec, false) {}

 private:
  Result<std::vector<std::int64_t>> audio_of(const ChunkRequest& request,
                                             std::vector<std::int64_t> frames) const override;
};

/// Qwen2.5-Omni: start, pad and end are stripped; places at the end whose code is not known (-1) repeat the
/// last one that is.
class Qwen25Talker2Code2WavFullPayload final : public Talker2Code2WavFullPayload {
 public:
  Qwen25Talker2Code2WavFullPayload() : Talker2Code2WavFullPayload(kQwen25Codec, true) {}

 private:
  Result<std::vector<std::int64_t>> audio_of(const ChunkRequest& request,
                                             std::vector<std::int64_t> frames) const override;
};

}  // namespace stagewire::chunk
