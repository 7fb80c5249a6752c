// Rows of one width and dtype that arrive step by step and leave as one tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "stagewire/payload.hpp"

namespace stagewire::chunk {

/// `count` rows of [n, width], from row `first` on; a view of the same memory.
TensorView row_range(const TensorView& rows, std::int64_t first, std::int64_t count);

/// Owns copies of the rows: what a model made belongs to its caller.
class RowBuffer {
 public:
  /// Takes the form of the first rows and refuses others; `rows` is [n, width] and was checked.
  bool fits(const TensorView& rows) const;
  /// `fits(rows)`. Makes room for `reserve_count` rows when it is the first of them.
  void append(const TensorView& rows, std::int64_t reserve_count = 0);

  std::int64_t count() const { return count_; }
  DType dtype() const { return dtype_; }
  /// The first `rows` rows. Valid until the buffer changes.
  TensorView view(std::int64_t rows) const;
  TensorView view() const { return view(count_); }
  /// view() into a tensor that exists, without an allocation when that has two dimensions.
  void view_into(TensorView& tensor) const;

  void clear();    ///< keeps the memory for the next rows
  void release();  ///< gives it back

 private:
  std::vector<std::byte> bytes_;
  std::int64_t count_ = 0;
  std::int64_t width_ = 0;
  DType dtype_ = DType::bfloat16;
};

}  // namespace stagewire::chunk
