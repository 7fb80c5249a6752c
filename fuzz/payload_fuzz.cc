// Nested payloads.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.hpp"
#include "stagewire/payload.hpp"

namespace {

std::vector<std::byte> written(const stagewire::Value& value) {
  const auto size = stagewire::encoded_size(value);
  STAGEWIRE_CHECK(size.ok(), "what was decoded cannot be encoded");
  std::vector<std::byte> bytes(*size);
  const auto count = stagewire::encode(value, bytes);
  STAGEWIRE_CHECK(count.ok() && *count == bytes.size(), "encode() disagrees with encoded_size()");
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto value = stagewire::decode(std::as_bytes(std::span(data, size)));
  if (!value) return 0;
  const auto bytes = written(*value);
  const auto again = stagewire::decode(bytes);
  STAGEWIRE_CHECK(again.ok() && written(*again) == bytes, "a payload changed on its way");
  return 0;
}
