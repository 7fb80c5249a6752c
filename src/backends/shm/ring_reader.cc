#include "backends/shm/ring_reader.hpp"

#include <algorithm>
#include <cstring>

#include "base/text.hpp"

namespace stagewire::backends::shm {
namespace {

// One fetch of a word that somebody else may be changing: the value that was checked is the value that is
// used.
std::uint32_t fetch(const std::byte* at) {
  return *reinterpret_cast<const volatile std::uint32_t*>(at);
}

}  // namespace

RingReader::RingReader(const RingView& view) : view_(view), copy_(view.geometry.max_message()) {}

RingReader::Next RingReader::fail(std::string what) {
  corruption_ = base::text(what, " at byte ", tail_, " of its messages");
  return Next::corrupt;
}

RingReader::Next RingReader::check(const RecordHeader& header, std::uint64_t available) {
  if (header.size > copy_.size() || record_span(header.size) > available) {
    return fail(base::text("a message of ", header.size, " bytes where ", available, " are written"));
  }
  if (header.payload_size > 0 &&
      (header.slot >= view_.geometry.slots || header.payload_size > view_.geometry.slot_size)) {
    return fail(base::text("a payload of ", header.payload_size, " bytes in slot ", header.slot));
  }
  const auto kind = static_cast<RecordKind>(header.kind);
  if (kind == RecordKind::message) return Next::record;
  if (kind == RecordKind::notification && header.size == sizeof(std::uint32_t) && header.payload_size == 0) {
    return Next::record;
  }
  return fail(base::text("a record of kind ", header.kind, " and ", header.size, " bytes"));
}

RingReader::Next RingReader::next(Record& record) {
  const std::uint64_t head = view_.header->head.load(std::memory_order_acquire);
  if (head == tail_) return Next::none;
  const std::uint64_t size = view_.geometry.ring_size;
  if (head - tail_ > size || head % kRecordAlignment != 0) return fail(base::text("a head of ", head));
  std::uint64_t until_end = size - view_.geometry.wrapped(tail_);
  if (fetch(view_.ring + view_.geometry.wrapped(tail_)) == static_cast<std::uint32_t>(RecordKind::wrap)) {
    if (head - tail_ <= until_end) return fail("a wrap with nothing after it");
    tail_ += until_end;
    until_end = size;
  }
  const std::uint64_t available = std::min(head - tail_, until_end);
  if (available < sizeof(RecordHeader)) return fail(base::text("a record of ", available, " bytes"));
  const std::byte* at = view_.ring + view_.geometry.wrapped(tail_);
  const RecordHeader header{fetch(at), fetch(at + 4), fetch(at + 8), fetch(at + 12)};
  if (check(header, available) == Next::corrupt) return Next::corrupt;
  std::memcpy(copy_.data(), at + sizeof header, header.size);
  tail_ += record_span(header.size);
  record = {static_cast<RecordKind>(header.kind), std::span(copy_).first(header.size), header.slot,
            header.payload_size};
  return Next::record;
}

bool RingReader::release() {
  if (released_ == tail_) return false;
  released_ = tail_;
  view_.header->tail.store(tail_);  // before the look at the flag; see RingWriter::put()
  return view_.header->writer_waits.load() != 0 && view_.header->writer_waits.exchange(0) != 0;
}

}  // namespace stagewire::backends::shm
