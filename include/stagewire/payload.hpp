// Nested tensors and their bytes: what vLLM-Omni's OmniSerializer writes and reads (one msgpack object,
// tensors as marked maps), encoded straight into the memory that is sent and decoded as views into the memory
// that arrived.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "stagewire/result.hpp"

namespace stagewire {

/// Element types, named as torch names them. `int4`: two elements a byte, packed by the caller; its shape
/// counts elements and the last dimension is rounded up to whole bytes.
enum class DType : std::uint8_t {
  boolean,
  uint8,
  int8,
  int16,
  uint16,
  int32,
  uint32,
  int64,
  uint64,
  float16,
  bfloat16,
  float32,
  float64,
  complex64,
  complex128,
  float8_e4m3fn,
  float8_e5m2,
  float8_e4m3fnuz,
  float8_e5m2fnuz,
  float8_e8m0fnu,
  int4
};

STAGEWIRE_API std::string_view to_string(DType dtype);  ///< "bfloat16"
STAGEWIRE_API std::optional<DType> dtype_from_string(std::string_view name);
/// Bytes that `shape` takes, checked against overflow: `too_large`, or `invalid_argument` for a negative
/// dimension.
STAGEWIRE_API Result<std::uint64_t> byte_size(DType dtype, std::span<const std::int64_t> shape);

/// Most dimensions of a tensor or array, the limit of torch and numpy.
inline constexpr std::size_t kMaxDimensions = 64;

/// A tensor that somebody else owns. `strides` in elements; empty = contiguous, row-major.
struct TensorView {
  DType dtype = DType::uint8;
  std::vector<std::int64_t> shape;    ///< empty = 0-dim, one element
  const std::byte* data = nullptr;    ///< host memory
  std::vector<std::int64_t> strides;  ///< not for int4, whose elements have no addresses
};

/// A numpy array: `dtype` as numpy writes it ("<f4"). Always contiguous.
struct NdarrayView {
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;
};

/// A nested value. Strings, bytes and tensors are views: whoever makes a Value keeps their memory alive; a
/// decoded one points into the decoded buffer. Maps keep their order; keys are any plain value (strings and
/// integers in practice).
class Value {
 public:
  using List = std::vector<Value>;
  using Map = std::vector<std::pair<Value, Value>>;
  using Variant = std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string_view,
                               std::span<const std::byte>, TensorView, NdarrayView, List, Map>;

  Value() = default;  ///< None
  Value(bool v) : v_(v) {}
  Value(int v) : v_(std::int64_t{v}) {}
  Value(std::int64_t v) : v_(v) {}
  Value(std::uint64_t v) : v_(v) {}  ///< decoded only for values above the largest int64
  Value(double v) : v_(v) {}
  Value(const char* v) : v_(std::string_view(v)) {}
  Value(std::string_view v) : v_(v) {}
  Value(std::span<const std::byte> v) : v_(v) {}
  Value(TensorView v) : v_(std::move(v)) {}
  Value(NdarrayView v) : v_(std::move(v)) {}
  Value(List v) : v_(std::move(v)) {}
  Value(Map v) : v_(std::move(v)) {}

  const Variant& get() const { return v_; }
  bool is_none() const { return v_.index() == 0; }
  template <typename T>
  const T* get_if() const {
    return std::get_if<T>(&v_);
  }
  template <typename T>
  T* get_if() {
    return std::get_if<T>(&v_);
  }
  /// The entry of a map with this string key, the last one when it is repeated (as in Python); nullptr when
  /// there is none or this is no map.
  STAGEWIRE_API const Value* find(std::string_view key) const;
  Value* find(std::string_view key) { return const_cast<Value*>(std::as_const(*this).find(key)); }

 private:
  Variant v_;
};

/// Limits of the encoded form, the same for both directions; a tensor counts as the map that it is encoded as
/// (two levels, four entries and its dimensions).
struct PayloadLimits {
  std::size_t max_depth = 64;         ///< levels of nesting; values above 256 mean 256
  std::size_t max_items = 1'000'000;  ///< list and map entries altogether
};

/// Bytes that encode() will write. `invalid_argument` or `too_large` for a value that cannot be encoded:
/// strings must be UTF-8 (a Python peer refuses others), keys are no maps and no tensors, one string, bytes
/// or tensor has less than 4 GiB, a map with a true `__tensor__` or `__ndarray__` would come back as
/// something else.
STAGEWIRE_API Result<std::size_t> encoded_size(const Value& value, const PayloadLimits& limits = {});

/// Writes the value into `out`; returns the bytes written (what encoded_size() said). Non-contiguous tensors
/// are written row-major. Nothing is allocated. `exhausted` when `out` is too small.
STAGEWIRE_API Result<std::size_t> encode(const Value& value, std::span<std::byte> out,
                                         const PayloadLimits& limits = {});

/// Reads one value that fills `bytes`; views point into `bytes`, and tensors lie wherever the format puts
/// them: do not expect them to be aligned to their element size. `corrupt` says what is wrong at which
/// offset, `unsupported` names a dtype that is not known here. Memory use is bounded by the input's size
/// whatever it claims. A map whose `__tensor__` or `__ndarray__` is true, as Python takes a value for true,
/// becomes a TensorView or NdarrayView after shape, dtype and size have been checked against each other.
STAGEWIRE_API Result<Value> decode(std::span<const std::byte> bytes, const PayloadLimits& limits = {});
/// The same, into a value whose memory is used again: one of the same form as before takes none. After an
/// error the value is any.
STAGEWIRE_API Status decode(std::span<const std::byte> bytes, Value& value, const PayloadLimits& limits = {});

}  // namespace stagewire
