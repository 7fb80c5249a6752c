// A small tensor that outlives the step that brought it.
#pragma once

#include <cstddef>
#include <vector>

#include "payload/layout.hpp"
#include "stagewire/payload.hpp"

namespace stagewire::chunk {

class KeptTensor {
 public:
  /// Copies a tensor that payload::tensor_size() accepts.
  void keep(const TensorView& tensor) {
    bytes_.resize(payload::tensor_size(tensor).value());
    payload::copy_row_major(tensor, bytes_.size(), bytes_.data());
    view_ = {tensor.dtype, tensor.shape, bytes_.data(), {}};
  }
  bool empty() const { return bytes_.empty(); }
  /// Valid until the next keep().
  const TensorView& view() const { return view_; }

 private:
  std::vector<std::byte> bytes_;
  TensorView view_;
};

}  // namespace stagewire::chunk
