// What a replay sends: numbers that anybody can compute who knows the seed, so that the far end knows every
// byte that it has to get.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "pipeline/omni/model.hpp"

namespace stagewire::pipeline::omni {

enum class RowKind : std::uint64_t {
  embedding,  ///< Qwen3-Omni: layer 0; Qwen2.5-Omni: the only kind
  hidden,     ///< Qwen3-Omni: layer 24
  mark        ///< Qwen3-Omni: bos, eos and pad of the talker; `row` is 0, 1 or 2
};

/// Every function is pure: of the seed, the request's number and what it names.
class Contents {
 public:
  Contents(const Model& model, std::uint64_t seed) : model_(model), seed_(seed) {}

  const Model& model() const { return model_; }
  /// Any bits: as bfloat16 values they mean nothing. `out` has model().row_size() bytes.
  void fill_row(RowKind kind, std::uint64_t request, std::int64_t row, std::span<std::byte> out) const;
  /// Rows `first` to `first + count - 1`, one after the other.
  std::vector<std::byte> rows(RowKind kind, std::uint64_t request, std::int64_t first,
                              std::int64_t count) const;
  std::int64_t prompt_id(std::uint64_t request, std::int64_t index) const;
  std::int64_t output_id(std::uint64_t request, std::int64_t index) const;
  /// The codes of a frame, all of them audio. `out` has as many as the model has codebooks.
  void fill_frame(std::uint64_t request, std::int64_t frame, std::span<std::int64_t> out) const;

 private:
  const Model& model_;
  std::uint64_t seed_;
};

}  // namespace stagewire::pipeline::omni
