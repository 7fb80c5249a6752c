#include "backends/shm/ring_writer.hpp"

#include <algorithm>
#include <cstring>

namespace stagewire::backends::shm {
namespace {

// Lines that the reader has just had cost twice as much to write, and so do lines that have fallen out of the
// cache: so no fewer slots than these take turns, and more only when they are needed.
constexpr std::uint32_t kInTurn = 16;

}  // namespace

RingWriter::RingWriter(const RingView& view)
    : view_(view),
      slots_(view.geometry.slots, Slot::free),
      free_slots_(view.geometry.slots),
      sent_slots_(view.geometry.slots) {}

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
    sent_slots_.push(slot);
  }
  // Sequentially consistent together with the look at `armed` in should_ring(): either we see the reader
  // armed, or it sees this record in its last look before it sleeps.
  view_.header->head.store(head_);
  return Put::done;
}

bool RingWriter::should_ring(bool urgent) {
  // After the store of the head, and RingReader::arm() before its last look at it, all of them sequentially
  // consistent: either we see it armed, or it sees the record.
  const auto armed = static_cast<Armed>(view_.header->armed.load());
  if (armed == Armed::no) return false;
  if (!urgent && armed != Armed::for_all) {
    const std::uint64_t unread = head_ - view_.header->tail.load(std::memory_order_relaxed);
    const bool many = unread > view_.geometry.ring_size / 2 || sent_slots_.size() > view_.geometry.slots / 2;
    if (!many) return false;
  }
  return view_.header->armed.exchange(0) != 0;
}

// Several at once, when they are needed: each look at one that has come back takes a line from the reader.
// Mostly the oldest is the first to come back. When nothing is free, all are looked at: a reader may hold
// some for longer.
void RingWriter::collect_returned() {
  const auto returned = [this](std::uint32_t slot) {
    if (view_.slot_words[slot].load() == 0) return false;
    view_.slot_words[slot].store(0, std::memory_order_relaxed);
    slots_[slot] = Slot::free;
    free_slots_.push(slot);
    return true;
  };
  while (!sent_slots_.empty() && returned(sent_slots_.front())) sent_slots_.pop();
  if (!free_slots_.empty()) return;
  for (std::size_t left = sent_slots_.size(); left > 0; --left) {
    const std::uint32_t slot = sent_slots_.pop();
    if (!returned(slot)) sent_slots_.push(slot);
  }
}

std::optional<std::uint32_t> RingWriter::take_slot() {
  const std::uint32_t count = view_.geometry.slots;
  if (free_slots_.size() <= std::min(kInTurn, count) / 2) collect_returned();
  std::uint32_t slot = fresh_;
  if (fresh_ < count && (fresh_ < kInTurn || free_slots_.empty())) {
    ++fresh_;
  } else {
    if (free_slots_.empty()) {
      view_.header->writer_waits.store(1);
      collect_returned();
    }
    if (free_slots_.empty()) return std::nullopt;
    slot = free_slots_.pop();
  }
  slots_[slot] = Slot::taken;
  return slot;
}

void RingWriter::abandon_slot(std::uint32_t slot) {
  slots_[slot] = Slot::free;
  free_slots_.push(slot);
}

}  // namespace stagewire::backends::shm
