#include "payload/layout.hpp"

#include <array>
#include <charconv>
#include <cstring>

#include "base/text.hpp"

namespace stagewire::payload {
namespace {

// The outer dimensions of a strided tensor, and the run of bytes that lies side by side under each of their
// indices.
struct Runs {
  std::size_t outer_count = 0;
  std::size_t run_size = 0;
};

Runs find_runs(const TensorView& tensor, std::size_t item_size) {
  std::int64_t run = 1;
  std::size_t outer = tensor.shape.size();
  while (outer > 0 && (tensor.shape[outer - 1] == 1 || tensor.strides[outer - 1] == run)) {
    run *= tensor.shape[--outer];
  }
  return {outer, static_cast<std::size_t>(run) * item_size};
}

// `count` runs that begin `step` bytes apart. Single elements have a size that the compiler knows.
template <std::size_t size>
std::byte* copy_fixed(const std::byte* source, std::int64_t count, std::int64_t step, std::byte* target) {
  for (std::int64_t i = 0; i < count; ++i, source += step, target += size) std::memcpy(target, source, size);
  return target;
}

std::byte* copy_runs(const std::byte* source, std::int64_t count, std::int64_t step, std::size_t size,
                     std::byte* target) {
  switch (size) {
    case 1:
      return copy_fixed<1>(source, count, step, target);
    case 2:
      return copy_fixed<2>(source, count, step, target);
    case 4:
      return copy_fixed<4>(source, count, step, target);
    case 8:
      return copy_fixed<8>(source, count, step, target);
    case 16:
      return copy_fixed<16>(source, count, step, target);
    default:
      break;
  }
  for (std::int64_t i = 0; i < count; ++i, source += step, target += size) std::memcpy(target, source, size);
  return target;
}

}  // namespace

std::optional<std::uint64_t> numpy_item_size(std::string_view dtype) {
  if (!dtype.empty() && std::string_view("<>|=").find(dtype[0]) != std::string_view::npos)
    dtype.remove_prefix(1);
  if (dtype.size() < 2 || std::string_view("biufcmMSU").find(dtype[0]) == std::string_view::npos)
    return std::nullopt;
  const char kind = dtype[0];
  std::uint32_t count = 0;
  const char* end = dtype.data() + dtype.size();
  const auto [rest, error] = std::from_chars(dtype.data() + 1, end, count);
  if (error != std::errc{}) return std::nullopt;
  const bool has_unit = rest != end && *rest == '[' && end[-1] == ']' && (kind == 'm' || kind == 'M');
  if (rest != end && !has_unit) return std::nullopt;
  return kind == 'U' ? std::uint64_t{count} * 4 : count;  // text is four bytes a character
}

Result<std::uint64_t> ndarray_size(std::string_view dtype, std::span<const std::int64_t> shape) {
  const std::optional<std::uint64_t> item_size = numpy_item_size(dtype);
  if (!item_size)
    return base::error(ErrorCode::unsupported, "numpy dtype ", dtype, " cannot be moved as bytes");
  const Result<std::uint64_t> count = byte_size(DType::uint8, shape);
  if (!count) return count.error();
  std::uint64_t size = 0;
  if (__builtin_mul_overflow(*count, *item_size, &size)) {
    return base::error(ErrorCode::too_large, "an array of more than 2^64 bytes");
  }
  return size;
}

Result<std::uint64_t> tensor_size(const TensorView& tensor) {
  Result<std::uint64_t> size = byte_size(tensor.dtype, tensor.shape);
  if (!size) return size;
  if (*size > 0 && tensor.data == nullptr) {
    return base::error(ErrorCode::invalid_argument, "a tensor of ", *size, " bytes without data");
  }
  if (tensor.strides.empty()) return size;
  if (tensor.dtype == DType::int4) {
    return base::error(ErrorCode::invalid_argument,
                       "an int4 tensor with strides: pack its rows one after the other");
  }
  if (tensor.strides.size() != tensor.shape.size()) {
    return base::error(ErrorCode::invalid_argument, "a tensor of ", tensor.shape.size(), " dimensions with ",
                       tensor.strides.size(), " strides");
  }
  return size;
}

void copy_row_major(const TensorView& tensor, std::uint64_t size, std::byte* target) {
  if (size == 0) return;
  if (tensor.strides.empty()) {
    std::memcpy(target, tensor.data, size);
    return;
  }
  const auto item_size = static_cast<std::int64_t>(byte_size(tensor.dtype, {}).value());
  const auto [outer_count, run_size] = find_runs(tensor, static_cast<std::size_t>(item_size));
  if (outer_count == 0) {
    std::memcpy(target, tensor.data, size);
    return;
  }
  const std::size_t inner = outer_count - 1;
  std::array<std::int64_t, kMaxDimensions> index{};
  const std::byte* source = tensor.data;
  for (;;) {
    target = copy_runs(source, tensor.shape[inner], tensor.strides[inner] * item_size, run_size, target);
    std::size_t d = inner;
    for (; d > 0; --d) {  // the next index of the dimensions outside `inner`, the last one fastest
      source += tensor.strides[d - 1] * item_size;
      if (++index[d - 1] < tensor.shape[d - 1]) break;
      source -= tensor.strides[d - 1] * item_size * tensor.shape[d - 1];
      index[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

}  // namespace stagewire::payload
