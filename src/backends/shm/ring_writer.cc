#include "backends/shm/ring_writer.hpp"

#include <cstring>

namespace stagewire::backends::shm {

RingWriter::RingWriter(const RingView& view) : view_(view), slots_(view.geometry.slots, Slot::free) {
  for (std::uint32_t slot = view.geometry.slots; slot > 0; --slot) free_slots_.push_back(slot - 1);
}

// Looks at the reader's index only when the last known one says that there is no room.
bool RingWriter::fits(std::uint64_t needed) {
  const std::uint64_t size = view_.geometry.ring_size;
  if (head_ + needed - known_tail_ <= size) return true;
  const std::uint64_t tail = view_.header->tail.load();
  if (tail < known_tail_ || tail > head_) {
    reader_is_corrupt_ = true;
    return false;
  }
  known_tail_ = tail;
  return head_ + needed - known_tail_ <= size;
}

void RingWriter::write_record(RecordHeader header, std::span<const std::byte> bytes) {
  std::byte* at = view_.ring + view_.geometry.wrapped(head_);
  std::memcpy(at, &header, sizeof header);
  if (!bytes.empty()) std::memcpy(at + sizeof header, bytes.data(), bytes.size());
  head_ += record_span(bytes.size());
}

RingWriter::Put RingWriter::put(RecordKind kind, std::span<const std::byte> bytes, std::uint32_t slot,
                                std::uint32_t payload_size) {
  const std::uint64_t span = record_span(bytes.size());
  const std::uint64_t until_end = view_.geometry.ring_size - view_.geometry.wrapped(head_);
  const std::uint64_t needed = span <= until_end ? span : until_end + span;
  if (!fits(needed)) {
    // The flag first, then another look: the reader does it the other way round, so one of us sees the other.
    view_.header->writer_waits.store(1);
    if (reader_is_corrupt_ || !fits(needed)) return reader_is_corrupt_ ? Put::corrupt : Put::full;
  }
  if (span > until_end) {
    // The rest of the ring may be too short for a whole header, the kind always fits.
    const auto wrap = static_cast<std::uint32_t>(RecordKind::wrap);
    std::memcpy(view_.ring + view_.geometry.wrapped(head_), &wrap, sizeof wrap);
    head_ += until_end;
  }
  write_record(
      {static_cast<std::uint32_t>(kind), static_cast<std::uint32_t>(bytes.size()), slot, payload_size},
      bytes);
  if (payload_size > 0) {
    slots_[slot] = Slot::sent;
    sent_slots_.push_back(slot);
  }
  // Sequentially consistent together with the look at `armed` in should_ring(): either we see the reader
  // armed, or it sees this record in its last look before it sleeps.
  view_.header->head.store(head_);
  return Put::done;
}

bool RingWriter::should_ring(bool urgent) {
  const auto armed = static_cast<Armed>(view_.header->armed.load());
  if (armed == Armed::no) return false;
  if (!urgent && armed != Armed::for_all) {
    const std::uint64_t unread = head_ - view_.header->tail.load(std::memory_order_relaxed);
    const bool many = unread > view_.geometry.ring_size / 2 || sent_slots_.size() > view_.geometry.slots / 2;
    if (!many) return false;
  }
  return view_.header->armed.exchange(0) != 0;
}

// In the order in which they were sent first: a reader that keeps up returns them so, and the slot that was
// used last is the one that is still in the caches. Then all of them, for a reader that holds some for
// longer.
bool RingWriter::collect_returned() {
  const auto returned = [this](std::uint32_t slot) {
    if (view_.slot_words[slot].load() == 0) return false;
    view_.slot_words[slot].store(0, std::memory_order_relaxed);
    slots_[slot] = Slot::free;
    free_slots_.push_back(slot);
    return true;
  };
  if (!sent_slots_.empty() && returned(sent_slots_.front())) {
    sent_slots_.pop_front();
    return true;
  }
  if (!free_slots_.empty()) return true;
  std::erase_if(sent_slots_, returned);
  return !free_slots_.empty();
}

std::optional<std::uint32_t> RingWriter::take_slot() {
  if (!collect_returned()) {
    view_.header->writer_waits.store(1);
    if (!collect_returned()) return std::nullopt;
  }
  const std::uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  slots_[slot] = Slot::taken;
  return slot;
}

void RingWriter::abandon_slot(std::uint32_t slot) {
  slots_[slot] = Slot::free;
  free_slots_.push_back(slot);
}

}  // namespace stagewire::backends::shm
