// Engine and memory descriptors.
#include <cstddef>
#include <cstdint>

#include "base/check.hpp"
#include "stagewire/descriptor.hpp"
#include "wire/messages.hpp"

namespace {

template <typename Desc>
void check(std::span<const std::byte> input) {
  const auto desc = Desc::unpack(input);
  if (!desc) return;
  const auto bytes = desc->pack();
  // A short array gains our fields, which may take it over the limit.
  if (bytes.size() > stagewire::wire::kMaxDescriptorSize) return;
  const auto again = Desc::unpack(bytes);
  STAGEWIRE_CHECK(again.ok() && *again == *desc, "a descriptor changed on its way");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  check<stagewire::EngineDesc>(input);
  check<stagewire::MemoryDesc>(input);
  return 0;
}
