// The reading end of an inbox's ring. One thread at a time (whoever calls progress()).
//
// Each record is copied out before it is looked at: the writer may be another program that goes on
// scribbling.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "backends/shm/ring_layout.hpp"

namespace stagewire::backends::shm {

class RingReader {
 public:
  explicit RingReader(const RingView& view);

  struct Record {
    RecordKind kind = RecordKind::message;
    std::span<const std::byte> bytes;  ///< private copy, until the next call of next()
    std::uint32_t slot = 0;
    std::uint32_t payload_size = 0;  ///< 0: no payload; else within the slot
  };
  enum class Next { none, record, corrupt };

  /// Takes one record. After `corrupt`, what was wrong is in corruption(), and the ring must not be read
  /// again.
  Next next(Record& record);
  const std::string& corruption() const { return corruption_; }

  /// Makes what was read free for the writer. Returns true when the writer waits for it and must be told.
  bool release();

  bool empty() const { return view_.header->head.load() == tail_; }
  /// Look whether it is empty() after it, then sleep; see RingWriter::should_ring().
  void arm(Armed how) { view_.header->armed.exchange(static_cast<std::uint32_t>(how)); }
  void disarm() { view_.header->armed.store(0, std::memory_order_relaxed); }

 private:
  Next fail(std::string what);
  Next check(const RecordHeader& header, std::uint64_t available);

  RingView view_;
  std::uint64_t tail_ = 0;      // ours; what the shared word says is never read back
  std::uint64_t released_ = 0;  // what the writer was told
  std::vector<std::byte> copy_;
  std::string corruption_;
};

}  // namespace stagewire::backends::shm
