#include <algorithm>
#include <cstring>

#include "base/msgpack_writer.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "payload/layout.hpp"
#include "payload/limits.hpp"
#include "payload/marker.hpp"
#include "stagewire/payload.hpp"

namespace stagewire {
namespace {

constexpr std::uint64_t kMaxBlobSize = UINT32_MAX;

// Both sinks go on counting whatever happens, so that an error can say how much room is needed.
class CountingSink {
 public:
  void write(const char*, std::size_t size) { size_ += size; }
  std::byte* take(std::size_t size) {
    size_ += size;
    return nullptr;
  }
  std::size_t size() const { return size_; }

 private:
  std::size_t size_ = 0;
};

class SpanSink {
 public:
  explicit SpanSink(std::span<std::byte> out) : out_(out) {}
  void write(const char* data, std::size_t size) {
    if (std::byte* place = take(size); place != nullptr && size > 0) std::memcpy(place, data, size);
  }
  // The next `size` bytes; nullptr when they do not fit.
  std::byte* take(std::size_t size) {
    const std::size_t start = size_;
    size_ += size;
    return size_ <= out_.size() ? out_.data() + start : nullptr;
  }
  std::size_t size() const { return size_; }

 private:
  std::span<std::byte> out_;
  std::size_t size_ = 0;
};

template <typename Sink>
class Encoder {
 public:
  Encoder(Sink& sink, const PayloadLimits& limits) : sink_(sink), packer_(sink), limits_(limits) {}

  // False: error() says why.
  bool write(const Value& value, std::size_t depth, bool is_key) {
    return std::visit([&](const auto& v) { return put(v, depth, is_key); }, value.get());
  }
  const Error& error() const { return error_; }

 private:
  bool put(std::monostate, std::size_t, bool) {
    packer_.pack_nil();
    return true;
  }

  template <typename Plain>
  requires std::is_arithmetic_v<Plain>
  bool put(Plain v, std::size_t, bool) {
    packer_.pack(v);
    return true;
  }

  bool put(std::string_view v, std::size_t, bool) {
    if (!base::is_utf8(v))
      return fail(ErrorCode::invalid_argument, "a string that is not UTF-8: pass it as bytes");
    if (!fits(v.size())) return false;
    base::pack_text(packer_, v);
    return true;
  }

  bool put(std::span<const std::byte> v, std::size_t, bool) {
    if (!fits(v.size())) return false;
    base::pack_bytes(packer_, v);
    return true;
  }

  bool put(const TensorView& v, std::size_t depth, bool is_key) {
    const Result<std::uint64_t> size = payload::tensor_size(v);
    if (!size) return fail(size.error());
    if (!put_head(payload::kTensorMarker, to_string(v.dtype), v.shape, *size, depth, is_key)) return false;
    if (std::byte* place = sink_.take(*size)) payload::copy_row_major(v, *size, place);
    return true;
  }

  bool put(const NdarrayView& v, std::size_t depth, bool is_key) {
    const Result<std::uint64_t> size = payload::ndarray_size(v.dtype, v.shape);
    if (!size) return fail(size.error());
    if (*size != v.data.size()) {
      return fail(base::error(ErrorCode::invalid_argument, "an ndarray of ", v.data.size(),
                              " bytes whose dtype and ", "shape make ", *size));
    }
    if (!put_head(payload::kNdarrayMarker, v.dtype, v.shape, *size, depth, is_key)) return false;
    sink_.write(reinterpret_cast<const char*>(v.data.data()), v.data.size());
    return true;
  }

  bool put(const Value::List& v, std::size_t depth, bool is_key) {
    if (!enter(v.size(), depth)) return false;
    packer_.pack_array(static_cast<std::uint32_t>(v.size()));
    return std::all_of(v.begin(), v.end(), [&](const Value& item) { return write(item, depth + 1, is_key); });
  }

  bool put(const Value::Map& v, std::size_t depth, bool is_key) {
    if (is_key) return fail(ErrorCode::invalid_argument, "a map as a map's key");
    if (payload::is_marked(v, payload::kTensorMarker) || payload::is_marked(v, payload::kNdarrayMarker)) {
      return fail(ErrorCode::invalid_argument,
                  "a map that is marked as a tensor: pass a TensorView or NdarrayView");
    }
    if (!enter(v.size(), depth)) return false;
    packer_.pack_map(static_cast<std::uint32_t>(v.size()));
    return std::all_of(v.begin(), v.end(), [&](const auto& entry) {
      return write(entry.first, depth + 1, true) && write(entry.second, depth + 1, false);
    });
  }

  // The marked map up to the head of its data, in the order of OmniSerializer.
  bool put_head(std::string_view marker, std::string_view dtype, const std::vector<std::int64_t>& shape,
                std::uint64_t size, std::size_t depth, bool is_key) {
    if (is_key) return fail(ErrorCode::invalid_argument, "a tensor as a map's key");
    if (!enter(4, depth) || !enter(shape.size(), depth + 1) || !fits(size)) return false;
    packer_.pack_map(4);
    base::pack_text(packer_, marker);
    packer_.pack(true);
    base::pack_text(packer_, "dtype");
    base::pack_text(packer_, dtype);
    base::pack_text(packer_, "shape");
    packer_.pack_array(static_cast<std::uint32_t>(shape.size()));
    for (const std::int64_t dimension : shape) packer_.pack(dimension);
    base::pack_text(packer_, "data");
    packer_.pack_bin(static_cast<std::uint32_t>(size));
    return true;
  }

  bool enter(std::size_t count, std::size_t depth) {
    if (depth >= payload::max_depth(limits_)) {
      return fail(
          base::error(ErrorCode::too_large, "nested deeper than ", payload::max_depth(limits_), " levels"));
    }
    items_ += count;
    if (items_ <= payload::max_items(limits_)) return true;
    return fail(base::error(ErrorCode::too_large, "more than ", payload::max_items(limits_), " entries"));
  }

  bool fits(std::uint64_t size) {
    if (size <= kMaxBlobSize) return true;
    return fail(base::error(ErrorCode::too_large, size,
                            " bytes in one value of a nested payload, which holds ", kMaxBlobSize,
                            " at most: put it alone, as a tensor or as bytes"));
  }

  bool fail(ErrorCode code, std::string_view why) { return fail(Error(code, std::string(why))); }
  bool fail(const Error& error) {
    error_ = error.with_context("encode payload");
    return false;
  }

  Sink& sink_;
  msgpack::packer<Sink> packer_;
  PayloadLimits limits_;
  std::size_t items_ = 0;
  Error error_{ErrorCode::failed, {}};
};

}  // namespace

Result<std::size_t> encoded_size(const Value& value, const PayloadLimits& limits) {
  CountingSink sink;
  Encoder encoder(sink, limits);
  if (!encoder.write(value, 0, false)) return encoder.error();
  return sink.size();
}

Result<std::size_t> encode(const Value& value, std::span<std::byte> out, const PayloadLimits& limits) {
  SpanSink sink(out);
  Encoder encoder(sink, limits);
  if (!encoder.write(value, 0, false)) return encoder.error();
  if (sink.size() > out.size()) {
    return base::error(ErrorCode::exhausted, "encode payload: it takes ", sink.size(), " bytes and ",
                       out.size(), " are there");
  }
  return sink.size();
}

}  // namespace stagewire
