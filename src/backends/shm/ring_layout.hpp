// The memory of an inbox, shared by the two processes: one writes messages, the other reads them.
//
//   page 0            RingHeader
//   ring_size bytes   records, each at a multiple of 8: RecordHeader, bytes, padding
//   slots x 4 bytes   one word a slot: 1 = the reader is done with it
//   slots x slot_size payloads
//
// Each part starts on a page of its own. head and tail count bytes since the beginning and never wrap; a
// record lies at its position modulo ring_size (a power of two) and is never split: where it would not fit,
// kWrap fills the rest of the ring.
//
// Neither side trusts the other. Each keeps its own index, its own idea of which slots are out, and checks
// what it reads: head - tail <= ring_size, lengths within what is there, slots within the table and out.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "backends/shm/formats.hpp"
#include "stagewire/result.hpp"

namespace stagewire::backends::shm {

/// What the reader asks of the writer in RingHeader::armed.
enum class Armed : std::uint32_t {
  no = 0,          ///< it is awake: never ring
  for_urgent = 1,  ///< it sleeps: ring for urgent messages, or when many have gathered
  for_all = 2,     ///< it sleeps and waits for something: ring for every message
};

// A line for each word that one side writes and the other reads. Two lines apart: the CPU fetches lines in
// pairs.
struct RingHeader {
  alignas(128) std::atomic<std::uint64_t> head;  ///< of the writer: end of the last record
  alignas(128)
      std::atomic<std::uint64_t> tail;  ///< of the reader: start of the first record that it has not read
  alignas(128) std::atomic<std::uint32_t> armed;         ///< set by the reader, cleared by whoever rings
  alignas(128) std::atomic<std::uint32_t> writer_waits;  ///< 1: the writer met a full ring or had no slot
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
                  std::atomic<std::uint32_t>::is_always_lock_free,
              "locks of one process mean nothing to another");

enum class RecordKind : std::uint32_t { message = 1, notification = 2, wrap = 3 };

struct RecordHeader {
  std::uint32_t kind = 0;
  std::uint32_t size = 0;          ///< of the bytes that follow
  std::uint32_t slot = 0;          ///< of the payload
  std::uint32_t payload_size = 0;  ///< 0: there is none
};

constexpr std::size_t kRecordAlignment = 8;

constexpr std::uint64_t record_span(std::uint64_t size) {
  return (sizeof(RecordHeader) + size + kRecordAlignment - 1) / kRecordAlignment * kRecordAlignment;
}

/// Where the parts lie.
struct Geometry {
  std::uint64_t ring_size = 0;
  std::uint32_t slots = 0;
  std::uint32_t slot_size = 0;

  static constexpr std::uint64_t kPage = 4096;
  static constexpr std::uint64_t kMaxRing = 64ULL << 20;
  static constexpr std::uint32_t kMaxSlots = 65536;
  static constexpr std::uint32_t kMaxSlotSize = 16U << 20;

  /// `invalid_argument` with the limit when a number is out of range.
  Status check() const;
  /// Where a position in the stream of records lies in the ring.
  constexpr std::uint64_t wrapped(std::uint64_t position) const { return position & (ring_size - 1); }
  constexpr std::uint64_t slot_words_offset() const { return kPage + ring_size; }
  static constexpr std::uint64_t whole_pages(std::uint64_t size) {
    return (size + kPage - 1) / kPage * kPage;
  }
  constexpr std::uint64_t payload_offset() const {
    return slot_words_offset() + whole_pages(slots * sizeof(std::uint32_t));
  }
  constexpr std::uint64_t file_size() const {
    return payload_offset() + whole_pages(std::uint64_t{slots} * slot_size);
  }
  /// A quarter of the ring: however the ring is filled, an empty one takes it, wrapped or not.
  constexpr std::size_t max_message() const {
    return static_cast<std::size_t>(ring_size / 4) - sizeof(RecordHeader);
  }
};

/// The parts of a mapped inbox. Borrows the mapping.
struct RingView {
  RingView(std::byte* base, const Geometry& g)
      : geometry(g),
        header(reinterpret_cast<RingHeader*>(base)),
        ring(base + Geometry::kPage),
        slot_words(reinterpret_cast<std::atomic<std::uint32_t>*>(base + g.slot_words_offset())),
        payloads(base + g.payload_offset()) {}

  Geometry geometry;
  RingHeader* header;  // zeroed memory of a new file is a valid object: all its members are lock-free atomics
  std::byte* ring;
  std::atomic<std::uint32_t>* slot_words;
  std::byte* payloads;
};

}  // namespace stagewire::backends::shm
