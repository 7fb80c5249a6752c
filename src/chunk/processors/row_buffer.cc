#include "chunk/processors/row_buffer.hpp"

#include "base/check.hpp"
#include "payload/layout.hpp"

namespace stagewire::chunk {

TensorView row_range(const TensorView& rows, std::int64_t first, std::int64_t count) {
  TensorView range = rows;
  range.shape[0] = count;
  const std::int64_t stride = rows.strides.empty() ? rows.shape[1] : rows.strides[0];
  if (first > 0 && count > 0)
    range.data += first * stride * static_cast<std::int64_t>(byte_size(rows.dtype, {}).value());
  return range;
}

bool RowBuffer::fits(const TensorView& rows) const {
  return count_ == 0 || (rows.dtype == dtype_ && rows.shape[1] == width_);
}

void RowBuffer::append(const TensorView& rows, std::int64_t reserve_count) {
  STAGEWIRE_CHECK(rows.shape.size() == 2 && fits(rows), "rows of another form");
  const std::uint64_t size = payload::tensor_size(rows).value();
  if (size == 0) return;
  if (count_ == 0) {
    dtype_ = rows.dtype;
    width_ = rows.shape[1];
    const auto row_size = size / static_cast<std::uint64_t>(rows.shape[0]);
    if (reserve_count > 0) bytes_.reserve(static_cast<std::uint64_t>(reserve_count) * row_size);
  }
  if (rows.strides.empty()) {
    bytes_.insert(bytes_.end(), rows.data, rows.data + size);
  } else {
    bytes_.resize(bytes_.size() + size);
    payload::copy_row_major(rows, size, bytes_.data() + bytes_.size() - size);
  }
  count_ += rows.shape[0];
}

TensorView RowBuffer::view(std::int64_t rows) const {
  return {dtype_, {rows, width_}, bytes_.data(), {}};
}

void RowBuffer::view_into(TensorView& tensor) const {
  tensor.dtype = dtype_;
  tensor.shape.assign({count_, width_});
  tensor.data = bytes_.data();
  tensor.strides.clear();
}

void RowBuffer::clear() {
  bytes_.clear();
  count_ = 0;
}

void RowBuffer::release() {
  *this = RowBuffer();
}

}  // namespace stagewire::chunk
