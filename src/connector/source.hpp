// What is put, in whatever form, as something with a size that can be written into a block or a ring slot.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "stagewire/connector.hpp"
#include "wire/messages.hpp"

namespace stagewire::connector {

struct Source {
  wire::PayloadKind kind = wire::PayloadKind::bytes;
  std::uint64_t size = 0;
  DType dtype = DType::uint8;  ///< for kind tensor
  std::vector<std::int64_t> shape;
  /// Writes exactly `size` bytes; the memory that was put must still be there.
  std::function<Status(std::span<std::byte>)> write;
};

Source source_of(std::span<const std::byte> bytes);
Result<Source> source_of(const TensorView& tensor);
Result<Source> source_of(const Value& object);

/// The original calls bytes and tensors "fast path": they travel raw.
inline bool is_fast_path(wire::PayloadKind kind) {
  return kind != wire::PayloadKind::object;
}

}  // namespace stagewire::connector
