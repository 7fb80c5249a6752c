// How elements lie in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "stagewire/payload.hpp"

namespace stagewire::payload {

/// Bytes of one element of a numpy dtype ("<f4" has 4); nullopt for a dtype whose elements are no plain bytes
/// (objects, records) or that is none.
std::optional<std::uint64_t> numpy_item_size(std::string_view dtype);

/// Bytes of an ndarray; `corrupt` words are the caller's: this says `unsupported` for a dtype that cannot be
/// moved, `invalid_argument` or `too_large` for the shape.
Result<std::uint64_t> ndarray_size(std::string_view dtype, std::span<const std::int64_t> shape);

/// Bytes of the tensor in row-major order, when its fields agree with each other; `invalid_argument`,
/// `too_large`.
Result<std::uint64_t> tensor_size(const TensorView& tensor);

/// Writes a tensor that tensor_size() accepted, as one memcpy for each run of elements that lie side by side.
void copy_row_major(const TensorView& tensor, std::uint64_t size, std::byte* target);

}  // namespace stagewire::payload
