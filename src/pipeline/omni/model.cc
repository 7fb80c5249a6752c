#include "pipeline/omni/model.hpp"

#include <array>

namespace stagewire::pipeline::omni {

std::size_t Model::row_size() const {
  return static_cast<std::size_t>(thinker.rows.width) * 2;  // bfloat16 in both models
}

const Model& qwen3_omni_moe() {
  static constexpr Model kModel{
      "qwen3_omni_moe",          "Qwen3-Omni-30B-A3B-Instruct", "Qwen", "qwen3_omni", chunk::kQwen3Thinker,
      chunk::kQwen3Codec,
      /*end_code=*/2150,
      /*frames_per_second=*/12.5};
  return kModel;
}

const Model& qwen2_5_omni() {
  static constexpr Model kModel{"qwen2_5_omni",
                                "Qwen2.5-Omni-7B",
                                "Qwen",
                                "qwen2_5_omni",
                                chunk::kQwen25Thinker,
                                chunk::kQwen25Codec,
                                /*end_code=*/chunk::kQwen25EndId,
                                /*frames_per_second=*/50};
  return kModel;
}

std::span<const Model* const> all_models() {
  static const std::array<const Model*, 2> kAll{&qwen3_omni_moe(), &qwen2_5_omni()};
  return kAll;
}

}  // namespace stagewire::pipeline::omni
