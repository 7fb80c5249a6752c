#include "array.hpp"

namespace stagewire::python {
namespace {

using dlpack::DataType;

// DLPack's type codes.
constexpr std::uint8_t kInt = 0, kUnsigned = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBool = 6;
constexpr std::uint8_t kE4m3fn = 10, kE4m3fnuz = 11, kE5m2 = 12, kE5m2fnuz = 13, kE8m0fnu = 14;

// In the order of DType's values.
constexpr std::array kTraits = {
    DTypeTraits{DType::boolean, {kBool, 8, 1}, "?"},
    DTypeTraits{DType::uint8, {kUnsigned, 8, 1}, "B"},
    DTypeTraits{DType::int8, {kInt, 8, 1}, "b"},
    DTypeTraits{DType::int16, {kInt, 16, 1}, "h"},
    DTypeTraits{DType::uint16, {kUnsigned, 16, 1}, "H"},
    DTypeTraits{DType::int32, {kInt, 32, 1}, "i"},
    DTypeTraits{DType::uint32, {kUnsigned, 32, 1}, "I"},
    DTypeTraits{DType::int64, {kInt, 64, 1}, "q"},
    DTypeTraits{DType::uint64, {kUnsigned, 64, 1}, "Q"},
    DTypeTraits{DType::float16, {kFloat, 16, 1}, "e"},
    DTypeTraits{DType::bfloat16, {kBfloat, 16, 1}, nullptr},
    DTypeTraits{DType::float32, {kFloat, 32, 1}, "f"},
    DTypeTraits{DType::float64, {kFloat, 64, 1}, "d"},
    DTypeTraits{DType::complex64, {kComplex, 64, 1}, "Zf"},
    DTypeTraits{DType::complex128, {kComplex, 128, 1}, "Zd"},
    DTypeTraits{DType::float8_e4m3fn, {kE4m3fn, 8, 1}, nullptr},
    DTypeTraits{DType::float8_e5m2, {kE5m2, 8, 1}, nullptr},
    DTypeTraits{DType::float8_e4m3fnuz, {kE4m3fnuz, 8, 1}, nullptr},
    DTypeTraits{DType::float8_e5m2fnuz, {kE5m2fnuz, 8, 1}, nullptr},
    DTypeTraits{DType::float8_e8m0fnu, {kE8m0fnu, 8, 1}, nullptr},
    DTypeTraits{DType::int4, {kInt, 4, 1}, nullptr},
};

constexpr bool in_order() {
  for (std::size_t i = 0; i < kTraits.size(); ++i) {
    if (static_cast<std::size_t>(kTraits[i].dtype) != i) return false;
  }
  return true;
}
static_assert(in_order());

}  // namespace

const DTypeTraits& traits_of(DType dtype) {
  return kTraits[static_cast<std::size_t>(dtype)];
}

std::optional<DType> dtype_of(DataType type) {
  for (const DTypeTraits& traits : kTraits) {
    if (traits.dlpack == type && traits.dtype != DType::int4) return traits.dtype;
  }
  return std::nullopt;
}

}  // namespace stagewire::python
