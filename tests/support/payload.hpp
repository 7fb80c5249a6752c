// Comparing and printing payload values.
#pragma once

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "stagewire/payload.hpp"
#include "support/hex.hpp"

namespace stagewire::testing {

inline std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t dimension : shape) text += std::to_string(dimension) + ",";
  return text + "]";
}

/// Everything that a value holds, with its types, in one line: two values are the same when their texts are.
/// Tensors must be contiguous.
struct ValueText {
  std::string operator()(std::monostate) const { return "None"; }
  std::string operator()(bool v) const { return v ? "True" : "False"; }
  std::string operator()(std::int64_t v) const { return std::to_string(v); }
  std::string operator()(std::uint64_t v) const { return std::to_string(v) + "u"; }
  std::string operator()(double v) const { return "float:" + std::to_string(v); }
  std::string operator()(std::string_view v) const { return "'" + std::string(v) + "'"; }
  std::string operator()(std::span<const std::byte> v) const { return "bytes:" + to_hex(v); }
  std::string operator()(const TensorView& v) const {
    EXPECT_TRUE(v.strides.empty());
    const auto size = byte_size(v.dtype, v.shape);
    if (!size) return size.error().to_string();
    return std::string(to_string(v.dtype)) + shape_text(v.shape) + to_hex({v.data, *size});
  }
  std::string operator()(const NdarrayView& v) const {
    return v.dtype + shape_text(v.shape) + to_hex(v.data);
  }
  std::string operator()(const Value::List& v) const {
    std::string text = "[";
    for (const Value& item : v) text += std::visit(*this, item.get()) + ", ";
    return text + "]";
  }
  std::string operator()(const Value::Map& v) const {
    std::string text = "{";
    for (const auto& [key, entry] : v) {
      text += std::visit(*this, key.get()) + ": " + std::visit(*this, entry.get()) + ", ";
    }
    return text + "}";
  }
};

inline std::string text_of(const Value& value) {
  return std::visit(ValueText{}, value.get());
}

/// The value's bytes, in a buffer of exactly the size that encoded_size() says.
inline std::vector<std::byte> encoded(const Value& value) {
  const auto size = encoded_size(value);
  EXPECT_TRUE(size.ok()) << size.error().to_string();
  if (!size) return {};
  std::vector<std::byte> bytes(*size);
  const auto written = encode(value, bytes);
  EXPECT_TRUE(written.ok()) << written.error().to_string();
  EXPECT_EQ(written ? *written : 0, bytes.size());
  return bytes;
}

}  // namespace stagewire::testing
