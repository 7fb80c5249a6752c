// What a get returns, and blocks of the pool that are to be put.
#pragma once

#include <memory>
#include <mutex>

#include "array.hpp"
#include "stagewire/connector.hpp"

namespace stagewire::python {

/// stagewire.Delivery: a received payload in place. Every view made of it shares the delivery, whose lease
/// ends once, with the last of them.
class Received {
 public:
  explicit Received(Delivery delivery) : delivery_(std::make_shared<const Delivery>(std::move(delivery))) {}

  const std::shared_ptr<const Delivery>& get() const {
    if (!delivery_) throw Raised(Error(ErrorCode::closed, "this delivery was released"));
    return delivery_;
  }
  bool released() const { return delivery_ == nullptr; }
  void release() { delivery_.reset(); }

 private:
  std::shared_ptr<const Delivery> delivery_;
};

/// stagewire.PoolBuffer: a block of the connector's pool. Putting it moves the block away; views that are
/// still there then keep looking at the published bytes, which their owner must not change any more.
class Block {
 public:
  explicit Block(PoolBuffer buffer, bool is_object = false)
      : is_object_(is_object),
        bytes_(buffer.bytes()),
        buffer_(std::make_shared<std::optional<PoolBuffer>>(std::move(buffer))) {}

  /// It holds an encoded object, and arrives as one.
  bool is_object() const { return is_object_; }
  bool taken() const { return !buffer_ || !buffer_->has_value(); }
  std::span<std::byte> bytes() const { return bytes_; }
  /// Raises `closed` when it was put or released.
  PoolBuffer take();
  void release();
  std::shared_ptr<Array> array() const;

 private:
  bool is_object_;
  std::span<std::byte> bytes_;
  std::shared_ptr<std::optional<PoolBuffer>> buffer_;
};

void bind_deliveries(nb::module_& module);

}  // namespace stagewire::python
