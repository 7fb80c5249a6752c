// What Qwen2.5-Omni's thinker makes, for tests.
#pragma once

#include "chunk/processors/processor_fixture.hpp"

namespace stagewire::chunk::qwen2_5_omni {

/// The rows `first` to `first + count - 1` of a stream.
struct ThinkerStep {
  ThinkerStep(std::int64_t first, std::int64_t count, DType dtype = DType::bfloat16)
      : latent(TestTensor::rows(dtype, first, count, 3584)) {}
  Value output() const { return Value::Map{{"latent", latent.view()}}; }

  TestTensor latent;
};

}  // namespace stagewire::chunk::qwen2_5_omni
