#include <array>

#include "base/text.hpp"
#include "stagewire/payload.hpp"

namespace stagewire {
namespace {

struct Entry {
  DType dtype;
  std::string_view name;
  std::uint8_t bits;
};

// In the order of DType's values.
constexpr std::array kDTypes = {Entry{DType::boolean, "bool", 8},
                                Entry{DType::uint8, "uint8", 8},
                                Entry{DType::int8, "int8", 8},
                                Entry{DType::int16, "int16", 16},
                                Entry{DType::uint16, "uint16", 16},
                                Entry{DType::int32, "int32", 32},
                                Entry{DType::uint32, "uint32", 32},
                                Entry{DType::int64, "int64", 64},
                                Entry{DType::uint64, "uint64", 64},
                                Entry{DType::float16, "float16", 16},
                                Entry{DType::bfloat16, "bfloat16", 16},
                                Entry{DType::float32, "float32", 32},
                                Entry{DType::float64, "float64", 64},
                                Entry{DType::complex64, "complex64", 64},
                                Entry{DType::complex128, "complex128", 128},
                                Entry{DType::float8_e4m3fn, "float8_e4m3fn", 8},
                                Entry{DType::float8_e5m2, "float8_e5m2", 8},
                                Entry{DType::float8_e4m3fnuz, "float8_e4m3fnuz", 8},
                                Entry{DType::float8_e5m2fnuz, "float8_e5m2fnuz", 8},
                                Entry{DType::float8_e8m0fnu, "float8_e8m0fnu", 8},
                                Entry{DType::int4, "int4", 4}};

constexpr bool in_order() {
  for (std::size_t i = 0; i < kDTypes.size(); ++i) {
    if (static_cast<std::size_t>(kDTypes[i].dtype) != i) return false;
  }
  return true;
}
static_assert(in_order());

}  // namespace

std::string_view to_string(DType dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  return index < kDTypes.size() ? kDTypes[index].name : "unknown dtype";
}

std::optional<DType> dtype_from_string(std::string_view name) {
  for (const Entry& entry : kDTypes) {
    if (entry.name == name) return entry.dtype;
  }
  return std::nullopt;
}

Result<std::uint64_t> byte_size(DType dtype, std::span<const std::int64_t> shape) {
  const auto index = static_cast<std::size_t>(dtype);
  if (index >= kDTypes.size()) return base::error(ErrorCode::invalid_argument, "there is no dtype ", index);
  if (shape.size() > kMaxDimensions) {
    return base::error(ErrorCode::too_large, "a shape of ", shape.size(), " dimensions, allowed are ",
                       kMaxDimensions);
  }
  // An empty dimension makes all of it empty, however large the others are.
  bool empty = false;
  bool overflow = false;
  std::uint64_t size = (kDTypes[index].bits + 7U) / 8U;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] < 0)
      return base::error(ErrorCode::invalid_argument, "dimension ", i, " of the shape is ", shape[i]);
    auto count = static_cast<std::uint64_t>(shape[i]);
    empty = empty || count == 0;
    if (dtype == DType::int4 && i + 1 == shape.size()) count = (count + 1) / 2;
    overflow = __builtin_mul_overflow(size, count, &size) || overflow;
  }
  if (empty) return std::uint64_t{0};
  if (overflow) return base::error(ErrorCode::too_large, "a shape of more than 2^64 bytes");
  return size;
}

}  // namespace stagewire
