#include "backends/shm/inbox_memory.hpp"

#include "backends/shm/unix_socket.hpp"

namespace stagewire::backends::shm {

InboxMemory::InboxMemory(base::Mapping mapping, const Geometry& geometry, base::UniqueFd socket)
    : mapping_(std::move(mapping)),
      view_(mapping_.bytes().data(), geometry),
      socket_(std::move(socket)),
      out_(std::make_unique<std::atomic<bool>[]>(geometry.slots)) {}

MessagePayload InboxMemory::hand_out(std::uint32_t slot, std::uint32_t size) {
  if (out_[slot].exchange(true)) return {};
  const std::byte* bytes = view_.payloads + std::uint64_t{slot} * view_.geometry.slot_size;
  return {{bytes, size}, shared_from_this(), take_back, slot};
}

void InboxMemory::take_back(void* self, std::uint32_t slot) {
  auto* memory = static_cast<InboxMemory*>(self);
  memory->out_[slot].store(false);  // before the writer can use it again
  memory->view_.slot_words[slot].store(1);
  // After the word, which is how the writer looks at them: see RingWriter::take_slot().
  std::atomic<std::uint32_t>& waits = memory->view_.header->writer_waits;
  if (waits.load() != 0 && waits.exchange(0) != 0) memory->tell_space();
}

void InboxMemory::tell_space() {
  // A peer whose socket is full or closed has other reasons to wake up.
  static const std::vector<std::byte> message = pack(SocketMessage(SpaceFreed{}));
  const auto sent = send_packet(socket(), message);
  if (!sent) return;
}

}  // namespace stagewire::backends::shm
