// Our msgpack reader and msgpack-cxx agree on what is a value and where it ends.
#include <cstddef>
#include <cstdint>
#include <msgpack.hpp>

#include "base/check.hpp"
#include "base/msgpack_reader.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  stagewire::base::MsgpackReader reader(std::as_bytes(std::span(data, size)));
  const bool ours = reader.skip(1);
  msgpack::null_visitor visitor;
  std::size_t offset = 0;
  const bool theirs = msgpack::parse(reinterpret_cast<const char*>(data), size, offset, visitor);
  STAGEWIRE_CHECK(ours == theirs, "only one of the two readers finds a value");
  STAGEWIRE_CHECK(!ours || reader.offset() == offset, "the readers find different ends");
  return 0;
}
