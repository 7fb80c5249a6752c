// Control messages between stagewire ends.
#include <cstddef>
#include <cstdint>

#include "base/check.hpp"
#include "wire/messages.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stagewire;
  const auto message = wire::decode(std::as_bytes(std::span(data, size)));
  if (!message) return 0;
  std::vector<std::byte> bytes;
  wire::encode(*message, bytes);
  const auto again = wire::decode(bytes);
  STAGEWIRE_CHECK(again.ok() && *again == *message, "a message changed on its way");
  return 0;
}
