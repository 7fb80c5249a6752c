#include <algorithm>
#include <limits>

#include "base/msgpack_reader.hpp"
#include "base/utf8.hpp"
#include "payload/layout.hpp"
#include "payload/limits.hpp"
#include "payload/marker.hpp"
#include "stagewire/payload.hpp"

namespace stagewire {
namespace {

using base::MsgpackToken;
using base::MsgpackType;

class Decoder {
 public:
  Decoder(std::span<const std::byte> bytes, const PayloadLimits& limits)
      : reader_(bytes),
        unclaimed_(bytes.size()),
        items_left_(payload::max_items(limits)),
        max_depth_(payload::max_depth(limits)) {}

  Status whole(Value& value) {
    if (!read(value, 0, false)) return error_.with_context("decode payload");
    if (reader_.left() > 0) {
      return base::error(ErrorCode::corrupt, "decode payload: ", reader_.left(),
                         " bytes follow its end at offset ", reader_.offset());
    }
    return {};
  }

 private:
  // Each read_ function leaves the reader after the value; false: error_ says why.
  bool read(Value& value, std::size_t depth, bool is_key) {
    MsgpackToken token;
    if (!reader_.next(token)) return fail(reader_.why());
    switch (token.type) {
      case MsgpackType::nil:
        value = Value();
        return true;
      case MsgpackType::boolean:
        value = Value(token.number != 0);
        return true;
      case MsgpackType::negative:
        value = Value(token.negative);
        return true;
      case MsgpackType::real:
        value = Value(token.real);
        return true;
      case MsgpackType::binary:
        value = Value(token.bytes);
        return true;
      case MsgpackType::positive:
        value = std::in_range<std::int64_t>(token.number) ? Value(static_cast<std::int64_t>(token.number))
                                                          : Value(token.number);
        return true;
      case MsgpackType::string:
        if (!base::is_utf8(token.text())) return fail(token.offset, "the string is not UTF-8");
        value = Value(token.text());
        return true;
      case MsgpackType::array:
        return read_list(token, value, depth, is_key);
      case MsgpackType::map:
        if (is_key) return fail(token.offset, "a map is a map's key");
        return read_map(token, value, depth);
      case MsgpackType::extension:
        return fail(token.offset, "an extension type, which payloads do not have");
    }
    return fail(token.offset, "nothing known");
  }

  bool read_list(const MsgpackToken& head, Value& value, std::size_t depth, bool is_key) {
    if (!enter(head, 1, depth)) return false;
    Value::List& list = made<Value::List>(value);
    list.resize(static_cast<std::size_t>(head.number));
    return std::all_of(list.begin(), list.end(), [&](Value& item) { return read(item, depth + 1, is_key); });
  }

  bool read_map(const MsgpackToken& head, Value& value, std::size_t depth) {
    if (read_tensor(head, value, depth)) return true;
    if (!enter(head, 2, depth)) return false;
    Value::Map& map = made<Value::Map>(value);
    map.resize(static_cast<std::size_t>(head.number));
    for (auto& [key, entry] : map) {
      if (!read(key, depth + 1, true) || !read(entry, depth + 1, false)) return false;
    }
    const bool tensor = payload::is_marked(map, payload::kTensorMarker);
    if (!tensor && !payload::is_marked(map, payload::kNdarrayMarker)) return true;
    const Value::Map parts = std::move(map);
    return tensor ? make_tensor(head.offset, parts, value) : make_ndarray(head.offset, parts, value);
  }

  // A tensor as encode() writes it, without a map in between. False: it is none, or something is wrong with
  // it, which whoever reads it as a map will say.
  bool read_tensor(const MsgpackToken& head, Value& value, std::size_t depth) {
    if (head.number != 4 || depth + 2 > max_depth_) return false;
    base::MsgpackReader reader = reader_;
    MsgpackToken marked, dtype, shape, data;
    const auto entry = [&reader](std::string_view key, MsgpackToken& token, MsgpackType type) {
      MsgpackToken name;
      return reader.next(name) && name.type == MsgpackType::string && name.text() == key &&
             reader.next(token) && token.type == type;
    };
    if (!entry(payload::kTensorMarker, marked, MsgpackType::boolean) || marked.number == 0 ||
        !entry("dtype", dtype, MsgpackType::string) || !entry("shape", shape, MsgpackType::array)) {
      return false;
    }
    // What the map and the list of its shape would take.
    const std::uint64_t claimed = 2 * head.number + shape.number;
    if (shape.number > kMaxDimensions || head.number + shape.number > items_left_ || claimed > unclaimed_) {
      return false;
    }
    const auto type = dtype_from_string(dtype.text());
    if (!type) return false;
    TensorView& tensor = made<TensorView>(value);
    tensor.dtype = *type;
    tensor.strides.clear();
    tensor.shape.clear();
    for (std::uint64_t i = 0; i < shape.number; ++i) {
      MsgpackToken dimension;
      if (!reader.next(dimension) || dimension.type != MsgpackType::positive ||
          !std::in_range<std::int64_t>(dimension.number)) {
        return false;
      }
      tensor.shape.push_back(static_cast<std::int64_t>(dimension.number));
    }
    if (!entry("data", data, MsgpackType::binary)) return false;
    const auto size = byte_size(tensor.dtype, tensor.shape);
    if (!size || *size != data.bytes.size()) return false;
    tensor.data = data.bytes.data();
    reader_ = reader;
    items_left_ -= head.number + shape.number;
    unclaimed_ -= claimed;
    return true;
  }

  // The value as a T: the one that it holds already, or an empty one.
  template <typename T>
  static T& made(Value& value) {
    if (value.get_if<T>() == nullptr) value = Value(T());
    return *value.get_if<T>();
  }

  // Memory is set aside only for entries that the input is long enough to hold, all containers taken
  // together.
  bool enter(const MsgpackToken& head, std::uint64_t least_entry_size, std::size_t depth) {
    if (depth >= max_depth_) {
      return fail(base::error(ErrorCode::corrupt, "offset ", head.offset, ": nested deeper than ", max_depth_,
                              " levels"));
    }
    if (head.number > items_left_) {
      return fail(base::error(ErrorCode::corrupt, "offset ", head.offset, ": ", head.number,
                              " entries where ", items_left_, " are still allowed"));
    }
    if (head.number * least_entry_size > unclaimed_) {
      return fail(base::error(ErrorCode::corrupt, "offset ", head.offset, ": ", head.number,
                              " entries are more than the input holds"));
    }
    items_left_ -= head.number;
    unclaimed_ -= head.number * least_entry_size;
    return true;
  }

  bool make_tensor(std::size_t offset, const Value::Map& map, Value& value) {
    TensorView tensor;
    std::string_view name;
    std::span<const std::byte> data;
    if (!read_parts(offset, map, name, tensor.shape, data)) return false;
    const std::optional<DType> dtype = dtype_from_string(name);
    if (!dtype) {
      return fail(base::error(ErrorCode::unsupported, "offset ", offset, ": tensor of dtype ", name,
                              ", which is not known here"));
    }
    tensor.dtype = *dtype;
    tensor.data = data.data();
    if (!agrees(offset, byte_size(*dtype, tensor.shape), data.size())) return false;
    value = Value(std::move(tensor));
    return true;
  }

  bool make_ndarray(std::size_t offset, const Value::Map& map, Value& value) {
    NdarrayView array;
    std::string_view name;
    if (!read_parts(offset, map, name, array.shape, array.data)) return false;
    array.dtype = name;
    if (!agrees(offset, payload::ndarray_size(name, array.shape), array.data.size())) return false;
    value = Value(std::move(array));
    return true;
  }

  bool read_parts(std::size_t offset, const Value::Map& map, std::string_view& dtype,
                  std::vector<std::int64_t>& shape, std::span<const std::byte>& data) {
    const Value* dtype_value = payload::find_entry(map, "dtype");
    const Value* shape_value = payload::find_entry(map, "shape");
    const Value* data_value = payload::find_entry(map, "data");
    const auto* name = dtype_value == nullptr ? nullptr : dtype_value->get_if<std::string_view>();
    const auto* list = shape_value == nullptr ? nullptr : shape_value->get_if<Value::List>();
    const auto* bytes = data_value == nullptr ? nullptr : data_value->get_if<std::span<const std::byte>>();
    if (name == nullptr) return fail(offset, "a tensor without a dtype string");
    if (list == nullptr) return fail(offset, "a tensor without a shape list");
    if (bytes == nullptr) return fail(offset, "a tensor without data bytes");
    for (const Value& item : *list) {
      const auto* dimension = item.get_if<std::int64_t>();
      if (dimension == nullptr) return fail(offset, "a tensor with a dimension that is no integer");
      shape.push_back(*dimension);
    }
    dtype = *name;
    data = *bytes;
    return true;
  }

  bool agrees(std::size_t offset, const Result<std::uint64_t>& expected, std::size_t size) {
    if (!expected) {
      const ErrorCode code = expected.error().code();
      return fail(base::error(code == ErrorCode::unsupported ? code : ErrorCode::corrupt, "offset ", offset,
                              ": ", expected.error().message()));
    }
    if (*expected == size) return true;
    return fail(base::error(ErrorCode::corrupt, "offset ", offset, ": a tensor with ", size,
                            " bytes of data whose ", "dtype and shape make ", *expected));
  }

  bool fail(std::size_t offset, std::string_view why) {
    return fail(base::error(ErrorCode::corrupt, "offset ", offset, ": ", why));
  }
  bool fail(Error error) {
    error_ = std::move(error);
    return false;
  }

  base::MsgpackReader reader_;
  std::uint64_t unclaimed_;
  std::uint64_t items_left_;
  std::size_t max_depth_;
  Error error_{ErrorCode::failed, {}};
};

}  // namespace

Result<Value> decode(std::span<const std::byte> bytes, const PayloadLimits& limits) {
  Value value;
  if (Status decoded = decode(bytes, value, limits); !decoded) return decoded.error();
  return value;
}

Status decode(std::span<const std::byte> bytes, Value& value, const PayloadLimits& limits) {
  return Decoder(bytes, limits).whole(value);
}

}  // namespace stagewire
