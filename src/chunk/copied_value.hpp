// A nested value with memory of its own.
#pragma once

#include <cstddef>
#include <memory>

#include "stagewire/payload.hpp"

namespace stagewire::chunk {

/// Copies of values of the same shape, one after the other, take no new memory.
class CopiedValue {
 public:
  /// Tensors become contiguous and aligned to 16 bytes. `invalid_argument` or `too_large` for one whose
  /// fields do not agree with each other.
  Status assign(const Value& value);
  const Value& value() const { return value_; }
  /// Bytes that its strings and tensors take.
  std::size_t size() const { return size_; }
  /// Gives memory back that is more than a step usually takes.
  void shrink();

 private:
  Value value_;
  std::unique_ptr<std::byte[]> bytes_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace stagewire::chunk
