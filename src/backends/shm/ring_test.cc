// Writer and reader of a ring over plain memory.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <random>

#include "backends/shm/ring_reader.hpp"
#include "backends/shm/ring_writer.hpp"

namespace stagewire::backends::shm {
namespace {

std::uint64_t seed() {
  const char* wanted = std::getenv("STAGEWIRE_SEED");
  return wanted == nullptr ? 1 : std::strtoull(wanted, nullptr, 10);
}

struct AlignedPages {
  alignas(4096) std::byte bytes[16384];
};

class Ring : public ::testing::Test {
 protected:
  const Geometry geometry{4096, 4, 1024};
  std::unique_ptr<AlignedPages> memory = std::make_unique<AlignedPages>(AlignedPages{});
  RingView view{memory->bytes, geometry};
  RingWriter writer{view};
  RingReader reader{view};
};

std::vector<std::byte> message_of(std::mt19937_64& random, std::size_t limit) {
  std::vector<std::byte> bytes(random() % 3 == 0 ? random() % (limit + 1) : random() % 64);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// Against a model: a queue of what was accepted.
TEST_F(Ring, delivers_what_it_accepted_in_order) {
  std::mt19937_64 random(seed());
  std::deque<std::vector<std::byte>> model;
  std::size_t full = 0;
  SCOPED_TRACE("seed " + std::to_string(seed()));
  for (int step = 0; step < 30'000; ++step) {
    if (random() % 5 < 3) {
      auto bytes = message_of(random, geometry.max_message());
      const auto put = writer.put(RecordKind::message, bytes, 0, 0);
      ASSERT_NE(put, RingWriter::Put::corrupt);
      if (put == RingWriter::Put::done) {
        model.push_back(std::move(bytes));
      } else {
        ASSERT_FALSE(model.empty()) << "an empty ring takes every message";
        ++full;
      }
    } else {
      RingReader::Record record;
      const auto next = reader.next(record);
      ASSERT_NE(next, RingReader::Next::corrupt) << reader.corruption();
      ASSERT_EQ(next == RingReader::Next::none, model.empty());
      if (next == RingReader::Next::none) continue;
      ASSERT_TRUE(
          std::equal(record.bytes.begin(), record.bytes.end(), model.front().begin(), model.front().end()));
      model.pop_front();
      if (random() % 4 == 0) reader.release();
    }
    // The reader releases at the latest when it has caught up.
    if (model.empty()) reader.release();
  }
  EXPECT_GT(full, 0U);
}

TEST_F(Ring, a_writer_that_met_a_full_ring_is_told_once) {
  const std::vector<std::byte> bytes(geometry.max_message());
  while (writer.put(RecordKind::message, bytes, 0, 0) == RingWriter::Put::done) continue;
  RingReader::Record record;
  EXPECT_EQ(reader.next(record), RingReader::Next::record);
  EXPECT_TRUE(reader.release());
  EXPECT_EQ(writer.put(RecordKind::message, bytes, 0, 0), RingWriter::Put::done);
  EXPECT_EQ(reader.next(record), RingReader::Next::record);
  EXPECT_FALSE(reader.release());
}

TEST_F(Ring, rings_a_sleeper_once_and_only_when_it_is_worth_it) {
  const std::vector<std::byte> bytes(64);
  writer.put(RecordKind::message, bytes, 0, 0);
  EXPECT_FALSE(writer.should_ring(true)) << "nobody sleeps";
  reader.arm(Armed::for_urgent);
  EXPECT_FALSE(writer.should_ring(false));
  EXPECT_TRUE(writer.should_ring(true));
  EXPECT_FALSE(writer.should_ring(true)) << "it was told";
  reader.arm(Armed::for_all);
  EXPECT_TRUE(writer.should_ring(false));
  reader.arm(Armed::for_urgent);
  while (!writer.should_ring(false)) {
    ASSERT_EQ(writer.put(RecordKind::message, bytes, 0, 0), RingWriter::Put::done)
        << "it is told before the ring is full";
  }
}

TEST_F(Ring, slots_rest_as_long_as_they_can) {
  std::vector<std::uint32_t> order;
  for (int i = 0; i < 8; ++i) {
    const auto slot = writer.take_slot();
    ASSERT_TRUE(slot.has_value());
    order.push_back(*slot);
    writer.put(RecordKind::message, {}, *slot, 100);
    view.slot_words[*slot].store(1);
  }
  EXPECT_EQ(order, (std::vector<std::uint32_t>{0, 1, 2, 3, 0, 1, 2, 3}));
}

// What a hostile writer may have left: no crash, no read outside (the sanitizers watch), an end.
TEST_F(Ring, survives_any_bytes) {
  std::mt19937_64 random(seed());
  std::size_t corrupt = 0;
  SCOPED_TRACE("seed " + std::to_string(seed()));
  for (int round = 0; round < 1000; ++round) {
    for (std::size_t i = 0; i < sizeof memory->bytes; i += 4) {
      const auto word = static_cast<std::uint32_t>(random() % 4 == 0 ? random() : random() % 4);
      std::memcpy(memory->bytes + i, &word, sizeof word);
    }
    view.header->head.store(random() % 4 == 0 ? random() : random() % 1024 * 8);
    RingReader victim(view);
    RingReader::Record record;
    RingReader::Next next = RingReader::Next::record;
    for (std::size_t i = 0; i <= geometry.ring_size && next == RingReader::Next::record; ++i) {
      next = victim.next(record);
      ASSERT_LE(record.bytes.size(), geometry.max_message());
      ASSERT_TRUE(record.payload_size == 0 || record.slot < geometry.slots);
      ASSERT_LE(record.payload_size, geometry.slot_size);
      victim.release();
    }
    ASSERT_NE(next, RingReader::Next::record) << "it ends";
    if (next == RingReader::Next::corrupt) ++corrupt;
  }
  EXPECT_GT(corrupt, 500U);
}

TEST_F(Ring, a_reader_s_nonsense_is_noticed_by_the_writer) {
  const std::vector<std::byte> bytes(geometry.max_message());
  while (writer.put(RecordKind::message, bytes, 0, 0) == RingWriter::Put::done) continue;
  view.header->tail.store(1ULL << 40);
  EXPECT_EQ(writer.put(RecordKind::message, bytes, 0, 0), RingWriter::Put::corrupt);
}

}  // namespace
}  // namespace stagewire::backends::shm
