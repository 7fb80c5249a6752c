#include "connector/source.hpp"

#include <cstring>

#include "payload/layout.hpp"

namespace stagewire::connector {

Source source_of(std::span<const std::byte> bytes) {
  Source source;
  source.size = bytes.size();
  source.write = [bytes](std::span<std::byte> out) -> Status {
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return {};
  };
  return source;
}

Result<Source> source_of(const TensorView& tensor) {
  const auto size = payload::tensor_size(tensor);
  if (!size) return size.error();
  Source source;
  source.kind = wire::PayloadKind::tensor;
  source.size = *size;
  source.dtype = tensor.dtype;
  source.shape = tensor.shape;
  source.write = [&tensor, bytes = *size](std::span<std::byte> out) -> Status {
    payload::copy_row_major(tensor, bytes, out.data());
    return {};
  };
  return source;
}

Result<Source> source_of(const Value& object) {
  const auto size = encoded_size(object);
  if (!size) return size.error();
  Source source;
  source.kind = wire::PayloadKind::object;
  source.size = *size;
  source.write = [&object](std::span<std::byte> out) -> Status {
    const auto written = encode(object, out);
    return written ? Status() : Status(written.error());
  };
  return source;
}

}  // namespace stagewire::connector
