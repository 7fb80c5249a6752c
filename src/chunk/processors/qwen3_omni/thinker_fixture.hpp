// What Qwen3-Omni's thinker makes, for tests.
#pragma once

#include "chunk/processors/processor_fixture.hpp"

namespace stagewire::chunk::qwen3_omni {

/// The rows `first` to `first + count - 1` of a stream.
struct ThinkerStep {
  ThinkerStep(std::int64_t first, std::int64_t count)
      : embedding(TestTensor::rows(DType::bfloat16, first, count, 2048, 1)),
        hidden(TestTensor::rows(DType::bfloat16, first, count, 2048, 2)) {}

  /// As the model gives it: with the three marks.
  Value output() const {
    return Value::Map{
        {"hidden_states", Value::Map{{"layers", Value::Map{{0, embedding.view()}, {24, hidden.view()}}}}},
        {"embed",
         Value::Map{{"tts_bos", mark(0).view()}, {"tts_eos", mark(1).view()}, {"tts_pad", mark(2).view()}}}};
  }
  /// Without them.
  Value rows_only() const {
    return Value::Map{
        {"hidden_states", Value::Map{{"layers", Value::Map{{0, embedding.view()}, {24, hidden.view()}}}}}};
  }
  static const TestTensor& mark(int index) {
    static const std::vector<TestTensor> marks = [] {
      std::vector<TestTensor> all(3, TestTensor(DType::bfloat16, {1, 1, 2048}));
      return all;
    }();
    return marks[static_cast<std::size_t>(index)];
  }

  TestTensor embedding;
  TestTensor hidden;
};

}  // namespace stagewire::chunk::qwen3_omni
