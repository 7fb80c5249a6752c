// Addresses, remote keys and socket messages of the shm backend: any bytes give a value or `corrupt`.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "backends/shm/formats.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace shm = stagewire::backends::shm;
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  // What was understood means the same after another round.
  if (const auto address = shm::unpack_address(bytes)) {
    const auto again = shm::unpack_address(shm::pack(*address));
    if (!again.ok() || !(*again == *address)) std::abort();
  }
  if (const auto key = shm::unpack_region_key(bytes)) {
    if (!shm::unpack_region_key(shm::pack(*key)).ok()) std::abort();
  }
  if (const auto message = shm::unpack_message(bytes)) {
    const auto again = shm::unpack_message(shm::pack(*message));
    if (!again.ok() || again->index() != message->index()) std::abort();
  }
  return 0;
}
