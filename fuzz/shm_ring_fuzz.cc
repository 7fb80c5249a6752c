// The reader of a message ring over memory that a hostile writer has filled: it ends, and stays inside.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "backends/shm/ring_reader.hpp"

namespace {

namespace shm = stagewire::backends::shm;

constexpr shm::Geometry kGeometry{4096, 4, 64};

struct Memory {
  alignas(4096) std::byte bytes[kGeometry.file_size()];
};

}  // namespace

// The first eight bytes are the head, the others the ring's.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Memory memory;
  std::memset(&memory, 0, sizeof memory);
  const shm::RingView view(memory.bytes, kGeometry);
  std::uint64_t head = 0;
  const std::size_t head_size = std::min(size, sizeof head);
  std::memcpy(&head, data, head_size);
  view.header->head.store(head);
  std::memcpy(view.ring, data + head_size, std::min<std::size_t>(size - head_size, kGeometry.ring_size));
  shm::RingReader reader(view);
  shm::RingReader::Record record;
  std::size_t records = 0;
  while (reader.next(record) == shm::RingReader::Next::record) {
    if (++records > kGeometry.ring_size / sizeof(shm::RecordHeader)) std::abort();
    if (record.bytes.size() > kGeometry.max_message()) std::abort();
    if (record.payload_size > 0 && record.slot >= kGeometry.slots) std::abort();
    reader.release();
  }
  return 0;
}
