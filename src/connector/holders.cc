#include "connector/holders.hpp"

#include "base/text.hpp"

namespace stagewire {
namespace {

// A sender of another version may name a type that is not known here; it is then delivered as plain bytes.
wire::PayloadKind known_kind(const wire::Ready& ready) {
  const bool unknown =
      ready.kind == wire::PayloadKind::tensor && ready.dtype > static_cast<std::uint32_t>(DType::int4);
  return unknown ? wire::PayloadKind::bytes : ready.kind;
}

}  // namespace

Delivery::Holder::Holder(Route by, const wire::Ready& ready)
    : route(by), kind(known_kind(ready)), dtype(static_cast<DType>(ready.dtype)), shape(ready.shape) {}

Delivery::Delivery() = default;
Delivery::Delivery(Delivery&&) noexcept = default;
Delivery& Delivery::operator=(Delivery&&) noexcept = default;
Delivery::~Delivery() = default;
Delivery::Delivery(std::unique_ptr<Holder> holder) : holder_(std::move(holder)) {}

DeliveryKind Delivery::kind() const {
  if (!holder_ || holder_->kind == wire::PayloadKind::bytes) return DeliveryKind::bytes;
  return holder_->kind == wire::PayloadKind::tensor ? DeliveryKind::tensor : DeliveryKind::object;
}

Route Delivery::route() const {
  return holder_ ? holder_->route : Route::eager;
}
std::uint64_t Delivery::size() const {
  return bytes().size();
}
std::span<const std::byte> Delivery::bytes() const {
  return holder_ ? holder_->bytes : std::span<const std::byte>();
}

Result<TensorView> Delivery::tensor() const {
  if (kind() != DeliveryKind::tensor) {
    return base::error(ErrorCode::invalid_argument,
                       "what was delivered is not a tensor: use bytes() or object()");
  }
  const auto expected = byte_size(holder_->dtype, holder_->shape);
  if (!expected) return expected.error();
  if (*expected != size()) {
    return base::error(ErrorCode::corrupt, "a tensor of ", *expected, " bytes by its shape came with ",
                       size());
  }
  TensorView view;
  view.dtype = holder_->dtype;
  view.shape = holder_->shape;
  view.data = bytes().data();
  return view;
}

Result<Value> Delivery::object() const {
  if (kind() != DeliveryKind::object) {
    return base::error(ErrorCode::invalid_argument,
                       "what was delivered is not an object: use bytes() or tensor()");
  }
  return decode(bytes());
}

void Delivery::release() {
  holder_.reset();
}

PoolBuffer::PoolBuffer() = default;
PoolBuffer::PoolBuffer(PoolBuffer&&) noexcept = default;
PoolBuffer& PoolBuffer::operator=(PoolBuffer&&) noexcept = default;
PoolBuffer::~PoolBuffer() = default;
PoolBuffer::PoolBuffer(std::unique_ptr<Holder> holder) : holder_(std::move(holder)) {}
std::span<std::byte> PoolBuffer::bytes() const {
  return holder_ ? holder_->bytes() : std::span<std::byte>();
}

namespace connector {
EagerHolder::EagerHolder(const wire::Ready& ready, MessagePayload payload)
    : Holder(Route::eager, ready), payload_(std::move(payload)) {
  bytes = payload_.bytes();
}

LeaseHolder::LeaseHolder(const wire::Ready& ready, std::weak_ptr<engine::Core> core, engine::PeerPtr peer,
                         std::shared_ptr<RemoteRegion> region,
                         std::shared_ptr<std::atomic<std::uint64_t>> leased)
    : Holder(Route::lease, ready),
      lease_(ready.lease),
      core_(std::move(core)),
      peer_(std::move(peer)),
      region_(std::move(region)),
      leased_(std::move(leased)) {
  bytes = {region_->mapping() + ready.offset, ready.size};
  leased_->fetch_add(ready.size);
}

LeaseHolder::~LeaseHolder() {
  leased_->fetch_sub(bytes.size());
  if (const auto core = core_.lock()) core->send(*peer_, wire::Release{lease_, true}, {}, false);
}

BlockHolder::BlockHolder(Route by, const wire::Ready& ready, std::unique_ptr<PoolBuffer::Holder> block)
    : Holder(by, ready), block_(std::move(block)) {
  bytes = block_->bytes();
}

}  // namespace connector
}  // namespace stagewire
