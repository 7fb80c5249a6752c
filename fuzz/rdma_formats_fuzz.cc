// Addresses, remote keys, greetings and frames of the rdma backend: any bytes give a value or `corrupt`.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "backends/rdma/formats.hpp"
#include "backends/rdma/frame.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace rdma = stagewire::backends::rdma;
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  // What was understood means the same after another round.
  if (const auto address = rdma::unpack_address(bytes)) {
    if (!rdma::unpack_address(rdma::pack(*address)).ok()) std::abort();
  }
  if (const auto key = rdma::unpack_region_key(bytes)) {
    if (!rdma::unpack_region_key(rdma::pack(*key)).ok()) std::abort();
  }
  if (const auto greeting = rdma::unpack_greeting(bytes)) {
    const auto again = rdma::unpack_greeting(rdma::pack(*greeting));
    if (!again.ok() || again->index() != greeting->index()) std::abort();
  }
  const auto frame = rdma::read_frame(bytes, 4096, 4096);
  if (frame.sane && frame.payload.size() + frame.message.size() > size) std::abort();
  return 0;
}
