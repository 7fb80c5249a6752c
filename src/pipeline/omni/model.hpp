// What distinguishes the traffic of the two models between their stages: thinker, talker, code2wav.
#pragma once

#include <span>
#include <string_view>

#include "chunk/processors/codec_frames.hpp"
#include "chunk/processors/thinker_reader.hpp"

namespace stagewire::pipeline::omni {

struct Model {
  std::string_view pipeline;    ///< its name in deploy files: "qwen3_omni_moe"
  std::string_view checkpoint;  ///< "Qwen3-Omni-30B-A3B-Instruct", without the owner
  std::string_view owner;       ///< "Qwen"
  std::string_view processors;  ///< the first part of its processors' names
  const chunk::ThinkerForm& thinker;
  const chunk::CodecForm& codec;
  std::int64_t end_code = 0;     ///< first code of the talker's last frame, which is no audio
  double frames_per_second = 0;  ///< of audio

  DType row_dtype() const { return thinker.rows.dtypes.front(); }
  std::size_t row_size() const;  ///< bytes
};

const Model& qwen3_omni_moe();
const Model& qwen2_5_omni();
std::span<const Model* const> all_models();

}  // namespace stagewire::pipeline::omni
