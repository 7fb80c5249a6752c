// What MORI-IO's engines send: any bytes give a message or `corrupt`, and a message means the same after
// another round.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "backends/rdma/mori/messages.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace mori = stagewire::backends::rdma::mori;
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  if (const auto message = mori::decode(bytes)) {
    const auto again = mori::decode(mori::encode(*message));
    if (!again.ok() || mori::encode(*again) != mori::encode(*message)) std::abort();
  }
  if (const auto notification = mori::decode_notification(bytes)) {
    if (notification->index < 0 || notification->index >= notification->count) std::abort();
  }
  return 0;
}
