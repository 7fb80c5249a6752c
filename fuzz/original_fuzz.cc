// The original connector's requests and responses.
#include <cstddef>
#include <cstdint>

#include "base/check.hpp"
#include "wire/messages.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stagewire;
  const auto input = std::as_bytes(std::span(data, size));
  if (const auto request = wire::decode_original_request(input)) {
    const auto bytes = std::visit([](const auto& r) { return wire::encode(r); }, *request);
    const auto again = wire::decode_original_request(bytes);
    STAGEWIRE_CHECK(again.ok() && *again == *request, "a request changed on its way");
  }
  if (const auto response = wire::decode_original_response(input)) {
    const auto again = wire::decode_original_response(wire::encode(*response));
    STAGEWIRE_CHECK(again.ok() && *again == *response, "a response changed on its way");
  }
  return 0;
}
