// The writing end of an inbox's ring and its payload slots. One thread at a time (the outbox holds a lock).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "backends/shm/ring_layout.hpp"

namespace stagewire::backends::shm {

/// Slots, first in, first out. Holds as many as it is made for.
class SlotQueue {
 public:
  explicit SlotQueue(std::size_t most) : slots_(most) {}
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::uint32_t front() const { return slots_[first_]; }
  void push(std::uint32_t slot) { slots_[(first_ + size_++) % slots_.size()] = slot; }
  std::uint32_t pop() {
    const std::uint32_t slot = front();
    first_ = (first_ + 1) % slots_.size();
    --size_;
    return slot;
  }

 private:
  std::vector<std::uint32_t> slots_;
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

class RingWriter {
 public:
  explicit RingWriter(const RingView& view);

  enum class Put { done, full, corrupt };

  /// Copies one record into the ring and publishes it. `full`: the reader was asked to tell us when it has
  /// read on. `corrupt`: the reader's index makes no sense.
  Put put(RecordKind kind, std::span<const std::byte> bytes, std::uint32_t slot, std::uint32_t payload_size);

  /// Whether the reader sleeps and this message (or what has gathered) is worth waking it for. True once for
  /// each time that the reader fell asleep; the caller then rings. After put().
  bool should_ring(bool urgent);

  /// A free slot, out until the reader returns it or abandon_slot(). nullopt: the reader was asked to tell
  /// us.
  std::optional<std::uint32_t> take_slot();
  void abandon_slot(std::uint32_t slot);
  /// Whether the slot was taken, and not sent since.
  bool holds_slot(std::uint32_t slot) const { return slot < slots_.size() && slots_[slot] == Slot::taken; }

  const RingView& view() const { return view_; }

 private:
  enum class Slot : std::uint8_t { free, taken, sent };

  bool fits(std::uint64_t needed);
  void collect_returned();
  void write_record(RecordHeader header, std::span<const std::byte> bytes);

  RingView view_;
  std::uint64_t head_ = 0;        // ours; what the shared word says is never read back
  std::uint64_t known_tail_ = 0;  // the reader's, as last read and checked
  bool reader_is_corrupt_ = false;
  std::vector<Slot> slots_;
  std::uint32_t fresh_ = 0;  // from this slot on they have never been used
  SlotQueue free_slots_;
  SlotQueue sent_slots_;
};

}  // namespace stagewire::backends::shm
