// Requests and model outputs for the tests of the processors, and what comes out of them.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "chunk/processors/chunk_fields.hpp"
#include "stagewire/chunk.hpp"
#include "support/payload.hpp"

namespace stagewire::chunk {

/// A request that owns what ChunkRequest shows.
struct TestRequest {
  std::string external_id = "chat-1";
  std::vector<std::int64_t> prompt_ids;
  std::vector<std::int64_t> output_ids;
  bool resumable = false;
  std::string speaker;
  std::string language;

  ChunkRequest view() const {
    return {"internal-1", external_id, prompt_ids, output_ids, resumable, speaker, language};
  }
};

inline std::vector<std::int64_t> counting(std::int64_t first, std::size_t count) {
  std::vector<std::int64_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

/// A tensor that owns its bytes.
class TestTensor {
 public:
  TestTensor(DType dtype, std::vector<std::int64_t> shape) : view_{dtype, std::move(shape), nullptr, {}} {
    bytes_.resize(byte_size(dtype, view_.shape).value());
  }
  /// Row i of [count, width] holds a pattern that only the number `first + i` and `salt` make.
  static TestTensor rows(DType dtype, std::int64_t first, std::int64_t count, std::int64_t width,
                         std::uint32_t salt = 0) {
    TestTensor tensor(dtype, {count, width});
    const std::size_t row_size = count > 0 ? tensor.bytes_.size() / static_cast<std::size_t>(count) : 0;
    for (std::int64_t row = 0; row < count; ++row) {
      auto state = static_cast<std::uint32_t>(first + row) * 2654435761U + salt;
      for (std::size_t i = 0; i < row_size; ++i) {
        state = state * 1664525U + 1013904223U;
        tensor.bytes_[static_cast<std::size_t>(row) * row_size + i] = static_cast<std::byte>(state >> 24U);
      }
    }
    return tensor;
  }
  /// The codes of frames, one after the other: [count, codebooks], or [count] for `codebooks` 0.
  static TestTensor codes(const std::vector<std::int64_t>& codes, std::int64_t codebooks) {
    const auto count = static_cast<std::int64_t>(codes.size());
    TestTensor tensor(DType::int64, codebooks == 0 ? std::vector<std::int64_t>{count}
                                                   : std::vector<std::int64_t>{count / codebooks, codebooks});
    if (!codes.empty()) std::memcpy(tensor.bytes_.data(), codes.data(), tensor.bytes_.size());
    return tensor;
  }

  TensorView view() const {
    TensorView view = view_;
    view.data = bytes_.data();
    return view;
  }
  std::string text() const { return testing::text_of(view()); }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  TensorView view_;
  std::vector<std::byte> bytes_;
};

inline Value codes_output(const TestTensor& codes) {
  return Value::Map{{"codes", Value::Map{{"audio", codes.view()}}}};
}

inline std::string ids_text(const std::vector<std::int64_t>& ids) {
  return testing::text_of(Value::List(ids.begin(), ids.end()));
}

inline std::unique_ptr<ChunkProcessor> make(std::string_view name,
                                            const ChunkProcessorOptions& options = {}) {
  auto processor = make_chunk_processor(name, options);
  EXPECT_TRUE(processor.ok()) << processor.error().to_string();
  return processor.ok() ? std::move(*processor) : nullptr;
}

/// What lies under "group" and "name", none when nothing does.
inline Value part(const Value& payload, std::string_view group, std::string_view name) {
  const Value* const map = payload.find(group);
  const Value* const found = map != nullptr ? map->find(name) : nullptr;
  return found != nullptr ? *found : Value();
}

inline std::string part_text(const Value& payload, std::string_view group, std::string_view name) {
  return testing::text_of(part(payload, group, name));
}

/// A chunk as it arrives: with the two flags that the adapter sets, encoded and decoded again.
class Delivered {
 public:
  Delivered(const std::optional<Value>& payload, ChunkEnd end) {
    Value chunk = payload ? *payload : Value(Value::Map{{"meta", Value::Map{}}});
    auto& meta = *chunk.find("meta")->get_if<Value::Map>();
    const std::array flags{std::byte{end.finished}, std::byte{end.segment_finished}};
    meta.emplace_back("finished", TensorView{DType::boolean, {}, &flags[0], {}});
    meta.emplace_back("is_segment_finished", TensorView{DType::boolean, {}, &flags[1], {}});
    bytes_ = testing::encoded(chunk);
    auto decoded = decode(bytes_);
    EXPECT_TRUE(decoded.ok()) << decoded.error().to_string();
    if (decoded.ok()) value_ = std::move(*decoded);
  }
  const Value& value() const { return value_; }
  std::size_t size() const { return bytes_.size(); }

 private:
  std::vector<std::byte> bytes_;
  Value value_;
};

/// Appends a tensor's bytes.
inline void append_bytes(const TensorView* tensor, std::vector<std::byte>& bytes) {
  if (tensor == nullptr) return;
  bytes.insert(bytes.end(), tensor->data, tensor->data + byte_size(tensor->dtype, tensor->shape).value());
}

/// Codes of a tensor as numbers.
inline std::vector<std::int64_t> codes_of(const Value& payload) {
  const Value codes = part(payload, "codes", "audio");
  const auto* const tensor = codes.get_if<TensorView>();
  if (tensor == nullptr || tensor->dtype != DType::int64 || tensor->shape.size() != 1) {
    ADD_FAILURE() << "codes.audio is no flat int64 tensor";
    return {};
  }
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(tensor->shape[0]));
  if (!numbers.empty()) std::memcpy(numbers.data(), tensor->data, numbers.size() * sizeof(std::int64_t));
  return numbers;
}

/// The payload of a call that must succeed; nullopt when it makes none.
inline std::optional<Value> processed(ChunkProcessor& processor, const TestRequest& request,
                                      const Value& output, bool terminal = false) {
  auto payload = processor.process(request.view(), output, terminal);
  EXPECT_TRUE(payload.ok()) << payload.error().to_string();
  return payload.ok() && *payload != nullptr ? std::optional<Value>(**payload) : std::nullopt;
}

}  // namespace stagewire::chunk
