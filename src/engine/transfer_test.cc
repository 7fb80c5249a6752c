// Reads and writes between two engines of one process, over each backend that carries host memory.
#include "engine/engine_fixture.hpp"

namespace stagewire::engine {
namespace {

using namespace testing_support;

class TransferTest : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Backends, TransferTest, ::testing::Values("local", "shm"),
                         [](const auto& backend) { return std::string(backend.param); });

TEST_P(TransferTest, R04_reads_exactly_the_bytes_that_were_named_and_none_beside) {
  EnginePair pair(GetParam());
  const auto source = pair.far_memory(4 << 20, Access::remote_read);
  const auto target = pair.near_memory(4 << 20);
  fill(source->bytes(), 1);
  std::uint64_t offset = 1;
  for (const std::size_t size : {1UL, 63UL, 4096UL, 65'537UL, 3'000'001UL}) {
    std::memset(target->bytes().data(), 0x5a, target->bytes().size());
    const auto transfer = pair.near->read(target->desc(), offset, source->desc(), offset * 3, size);
    ASSERT_TRUE(transfer->wait_for(kPatience).ok()) << transfer->message();
    EXPECT_EQ(transfer->state(), TransferState::done);
    EXPECT_EQ(std::memcmp(target->bytes().data() + offset, source->bytes().data() + offset * 3, size), 0);
    EXPECT_TRUE(all_are(target->bytes().first(offset), std::byte{0x5a})) << size;
    EXPECT_TRUE(all_are(target->bytes().subspan(offset + size), std::byte{0x5a})) << size;
    offset += 17;
  }
}

TEST_P(TransferTest, R04_writes_exactly_the_bytes_that_were_named_and_none_beside) {
  EnginePair pair(GetParam());
  const auto source = pair.near_memory(4 << 20);
  const auto target = pair.far_memory(4 << 20, Access::remote_write);
  fill(source->bytes(), 2);
  std::uint64_t offset = 3;
  for (const std::size_t size : {1UL, 63UL, 4096UL, 65'537UL, 3'000'001UL}) {
    std::memset(target->bytes().data(), 0x5a, target->bytes().size());
    const auto transfer = pair.near->write(source->desc(), offset * 5, target->desc(), offset, size);
    ASSERT_TRUE(transfer->wait_for(kPatience).ok()) << transfer->message();
    EXPECT_EQ(std::memcmp(target->bytes().data() + offset, source->bytes().data() + offset * 5, size), 0);
    EXPECT_TRUE(all_are(target->bytes().first(offset), std::byte{0x5a})) << size;
    EXPECT_TRUE(all_are(target->bytes().subspan(offset + size), std::byte{0x5a})) << size;
    offset += 17;
  }
}

// A region inside of a larger mapping: offsets count from the region, not from what lies around it.
TEST_P(TransferTest, R04_a_registered_part_of_an_allocation_is_bounded_by_itself) {
  EnginePair pair(GetParam());
  const auto whole = pair.near_memory(64 << 10);
  const auto source = pair.far_memory(64 << 10, Access::remote_read);
  fill(source->bytes(), 3);
  std::memset(whole->bytes().data(), 0x5a, whole->bytes().size());
  MemoryRegion part;
  part.data = whole->bytes().data() + 5000;
  part.size = 1000;
  const auto desc = pair.near->register_memory(part, Access::local_only);
  ASSERT_TRUE(desc.ok()) << desc.error().to_string();
  ASSERT_TRUE(pair.near->read(*desc, 0, source->desc(), 0, 1000)->wait_for(kPatience).ok());
  EXPECT_EQ(std::memcmp(part.data, source->bytes().data(), 1000), 0);
  EXPECT_TRUE(all_are(whole->bytes().first(5000), std::byte{0x5a}));
  EXPECT_TRUE(all_are(whole->bytes().subspan(6000), std::byte{0x5a}));
  EXPECT_FALSE(pair.near->read(*desc, 1, source->desc(), 0, 1000)->wait_for(kPatience).ok());
  EXPECT_TRUE(all_are(whole->bytes().subspan(6000), std::byte{0x5a}));
  EXPECT_TRUE(pair.near->deregister_memory(*desc).ok());
}

TEST_P(TransferTest, R16_offsets_that_overflow_are_refused_with_their_numbers) {
  EnginePair pair(GetParam());
  const auto source = pair.far_memory(8192, Access::remote_read_write);
  const auto target = pair.near_memory(8192);
  constexpr std::uint64_t kMax = UINT64_MAX;
  const TransferPiece bad[] = {
      {0, 0, 8193}, {0, 1, 8192}, {1, 0, 8192},       {0, 8193, 0},       {kMax, 0, 1},     {0, kMax, 1},
      {0, 1, kMax}, {1, 0, kMax}, {kMax, kMax, kMax}, {kMax - 10, 0, 12}, {0, kMax - 5, 8},
  };
  for (const TransferPiece& piece : bad) {
    for (const bool reads : {true, false}) {
      const auto transfer = reads ? pair.near->read(target->desc(), piece.local_offset, source->desc(),
                                                    piece.remote_offset, piece.size)
                                  : pair.near->write(target->desc(), piece.local_offset, source->desc(),
                                                     piece.remote_offset, piece.size);
      const Status ended = transfer->wait_for(kPatience);
      ASSERT_FALSE(ended.ok());
      EXPECT_EQ(ended.error().code(), ErrorCode::invalid_argument);
      EXPECT_NE(ended.error().message().find(std::to_string(piece.size)), std::string::npos)
          << ended.error().message();
      EXPECT_NE(ended.error().message().find("8192 bytes"), std::string::npos) << ended.error().message();
      EXPECT_NE(transfer->id(), 0U);
    }
  }
}

TEST_P(TransferTest, R16_access_that_was_not_granted_is_refused) {
  EnginePair pair(GetParam());
  const auto mine = pair.near_memory(4096);
  const auto readable = pair.far_memory(4096, Access::remote_read);
  const auto writable = pair.far_memory(4096, Access::remote_write);
  const auto neither = pair.far_memory(4096, Access::local_only);
  EXPECT_EQ(code_of(pair.near->write(mine->desc(), 0, readable->desc(), 0, 4096)), ErrorCode::permission);
  EXPECT_EQ(code_of(pair.near->read(mine->desc(), 0, writable->desc(), 0, 4096)), ErrorCode::permission);
  EXPECT_EQ(code_of(pair.near->read(mine->desc(), 0, neither->desc(), 0, 4096)), ErrorCode::permission);
  EXPECT_EQ(code_of(pair.near->read(mine->desc(), 0, readable->desc(), 0, 4096)), std::nullopt);
  EXPECT_EQ(code_of(pair.near->write(mine->desc(), 0, writable->desc(), 0, 4096)), std::nullopt);
}

// The descriptor is only what the peer says; the owner's registration decides.
TEST_P(TransferTest, R16_a_descriptor_that_claims_more_access_gets_no_more) {
  EnginePair pair(GetParam());
  const auto mine = pair.near_memory(4096);
  const auto readable = pair.far_memory(4096, Access::remote_read);
  std::memset(mine->bytes().data(), 1, 4096);
  std::memset(readable->bytes().data(), 2, 4096);
  MemoryDesc forged = readable->desc();
  forged.access = Access::remote_read_write;
  EXPECT_FALSE(pair.near->write(mine->desc(), 0, forged, 0, 4096)->wait_for(kPatience).ok());
  EXPECT_TRUE(all_are(readable->bytes(), std::byte{2}));
  MemoryDesc longer = readable->desc();
  longer.size = 1 << 20;
  const auto big = pair.near_memory(1 << 20);
  EXPECT_FALSE(pair.near->read(big->desc(), 0, longer, 0, 1 << 20)->wait_for(kPatience).ok());
}

TEST_P(TransferTest, R23_a_batch_is_done_when_all_of_its_pieces_are) {
  EnginePair pair(GetParam());
  const auto source = pair.far_memory(1 << 20, Access::remote_read);
  const auto target = pair.near_memory(1 << 20);
  fill(source->bytes(), 4);
  std::vector<TransferPiece> pieces;
  for (std::uint64_t i = 0; i < 100; ++i) pieces.push_back({i * 10'000, (99 - i) * 10'000, 9'000});
  pieces.push_back({0, 0, 0});
  const auto transfer = pair.near->batch_read(target->desc(), source->desc(), pieces);
  ASSERT_TRUE(transfer->wait_for(kPatience).ok()) << transfer->message();
  for (const TransferPiece& piece : pieces) {
    EXPECT_EQ(std::memcmp(target->bytes().data() + piece.local_offset,
                          source->bytes().data() + piece.remote_offset, piece.size),
              0);
  }
  pieces.push_back({0, (1 << 20) - 10, 11});
  std::memset(target->bytes().data(), 0, target->bytes().size());
  const auto bad = pair.near->batch_read(target->desc(), source->desc(), pieces);
  EXPECT_EQ(code_of(bad), ErrorCode::invalid_argument);
  EXPECT_TRUE(all_are(target->bytes(), std::byte{0})) << "a refused batch moved bytes";
}

TEST_P(TransferTest, R23_the_notification_follows_the_data_of_all_pieces) {
  EnginePair pair(GetParam());
  const auto source = pair.near_memory(4 << 20);
  const auto target = pair.far_memory(4 << 20, Access::remote_write);
  for (std::uint32_t round = 1; round <= 40; ++round) {
    fill(source->bytes(), round);
    const TransferPiece pieces[] = {{0, 2 << 20, 2 << 20}, {2 << 20, 0, 2 << 20}};
    const auto transfer =
        pair.near->batch_write(source->desc(), target->desc(), pieces, {.id = round, .notify = true});
    ASSERT_TRUE(pair.far->wait_inbound("near", round, kPatience).ok());
    EXPECT_EQ(std::memcmp(target->bytes().data(), source->bytes().data() + (2 << 20), 2 << 20), 0);
    EXPECT_EQ(std::memcmp(target->bytes().data() + (2 << 20), source->bytes().data(), 2 << 20), 0);
    EXPECT_FALSE(pair.far->pop_inbound("near", round)) << "taken twice";
    ASSERT_TRUE(transfer->wait_for(kPatience).ok());
    EXPECT_EQ(transfer->id(), round);
  }
}

TEST_P(TransferTest, notifications_are_popped_once_and_only_where_they_were_asked_for) {
  EnginePair pair(GetParam());
  const auto source = pair.near_memory(4096);
  const auto target = pair.far_memory(4096, Access::remote_write);
  const std::uint32_t id = pair.near->allocate_transfer_id();
  EXPECT_NE(id, pair.near->allocate_transfer_id());
  const auto silent = pair.near->write(source->desc(), 0, target->desc(), 0, 10);
  const auto loud = pair.near->write(source->desc(), 0, target->desc(), 0, 10, {.id = id, .notify = true});
  ASSERT_TRUE(silent->wait_for(kPatience).ok());
  ASSERT_TRUE(loud->wait_for(kPatience).ok());
  ASSERT_TRUE(eventually([&] { return pair.far->pop_inbound("near", id); }));
  EXPECT_FALSE(pair.far->pop_inbound("near", id));
  EXPECT_FALSE(pair.far->pop_inbound("near", silent->id()));
  EXPECT_FALSE(pair.far->pop_inbound("nobody", id));
  EXPECT_EQ(code_of(pair.far->wait_inbound("near", id, ms(10))), ErrorCode::timeout);
  EXPECT_EQ(code_of(pair.far->wait_inbound("nobody", id, kPatience)), ErrorCode::unavailable);
}

TEST_P(TransferTest, sessions_move_bytes_and_say_when_they_are_over) {
  EnginePair pair(GetParam());
  const auto source = pair.far_memory(1 << 20, Access::remote_read_write);
  auto target = pair.near_memory(1 << 20);
  fill(source->bytes(), 6);
  const auto session = pair.near->create_session(target->desc(), source->desc());
  ASSERT_TRUE(session.ok()) << session.error().to_string();
  EXPECT_TRUE((*session)->alive());
  EXPECT_NE((*session)->route().find(GetParam()), std::string::npos) << (*session)->route();
  for (std::uint64_t i = 0; i < 50; ++i) {
    const TransferPiece piece{i * 100, i * 200, 100};
    ASSERT_TRUE((*session)->read({&piece, 1})->wait_for(kPatience).ok());
    EXPECT_EQ(std::memcmp(target->bytes().data() + i * 100, source->bytes().data() + i * 200, 100), 0);
  }
  const TransferPiece piece{0, 500'000, 100'000};
  ASSERT_TRUE((*session)->write({&piece, 1})->wait_for(kPatience).ok());
  EXPECT_EQ(std::memcmp(target->bytes().data(), source->bytes().data() + 500'000, 100'000), 0);
  target.reset();
  EXPECT_FALSE((*session)->alive());
  EXPECT_EQ(code_of((*session)->read({&piece, 1})), ErrorCode::not_found);
}

TEST_P(TransferTest, a_region_that_is_not_registered_any_more_cannot_be_reached) {
  EnginePair pair(GetParam());
  const auto mine = pair.near_memory(4096);
  auto theirs = pair.far_memory(4096, Access::remote_read);
  const MemoryDesc gone = theirs->desc();
  theirs.reset();
  EXPECT_EQ(code_of(pair.near->read(mine->desc(), 0, gone, 0, 100)), ErrorCode::not_found);
  EXPECT_EQ(code_of(pair.far->deregister_memory(gone)), ErrorCode::not_found);
}

// Region numbers start anew in each engine: the descriptor's owner counts.
TEST_P(TransferTest, R16_a_peers_descriptor_does_not_deregister_a_region_of_ours) {
  EnginePair pair(GetParam());
  const auto mine = pair.near_memory(4096);
  const auto theirs = pair.far_memory(4096, Access::remote_read);
  ASSERT_EQ(mine->desc().id, theirs->desc().id);
  EXPECT_EQ(code_of(pair.near->deregister_memory(theirs->desc())), ErrorCode::not_found);
  EXPECT_TRUE(pair.near->read(mine->desc(), 0, theirs->desc(), 0, 4096)->wait_for(kPatience).ok());
}

TEST_P(TransferTest, an_engine_reads_and_writes_its_own_regions) {
  const auto engine = make_engine(config_of("alone", GetParam()));
  const auto one = EnginePair::memory_of(*engine, 100'000, Access::remote_read_write);
  const auto other = EnginePair::memory_of(*engine, 100'000, Access::remote_read_write);
  fill(one->bytes(), 7);
  ASSERT_TRUE(engine->write(one->desc(), 0, other->desc(), 0, 100'000)->wait_for(kPatience).ok());
  EXPECT_EQ(std::memcmp(one->bytes().data(), other->bytes().data(), 100'000), 0);
}

TEST_P(TransferTest, descriptors_work_after_packing_and_unpacking) {
  const auto near = make_engine(config_of("near", GetParam()));
  const auto far = make_engine(config_of("far", GetParam()));
  const auto source = EnginePair::memory_of(*far, 4096, Access::remote_read);
  const auto target = EnginePair::memory_of(*near, 4096, Access::local_only);
  fill(source->bytes(), 8);
  const auto engine = EngineDesc::unpack(far->desc().pack());
  const auto memory = MemoryDesc::unpack(source->desc().pack());
  ASSERT_TRUE(engine.ok() && memory.ok());
  ASSERT_TRUE(near->register_remote_engine(*engine).ok());
  ASSERT_TRUE(near->read(target->desc(), 0, *memory, 0, 4096)->wait_for(kPatience).ok());
  EXPECT_EQ(std::memcmp(source->bytes().data(), target->bytes().data(), 4096), 0);
}

TEST_P(TransferTest, an_unknown_engine_is_named) {
  EnginePair pair(GetParam());
  const auto mine = pair.near_memory(4096);
  const auto theirs = pair.far_memory(4096, Access::remote_read);
  MemoryDesc other = theirs->desc();
  other.engine_key = "somebody-else";
  const Status ended = pair.near->read(mine->desc(), 0, other, 0, 1)->wait_for(kPatience);
  ASSERT_FALSE(ended.ok());
  EXPECT_EQ(ended.error().code(), ErrorCode::not_found);
  EXPECT_NE(ended.error().message().find("somebody-else"), std::string::npos);
  EXPECT_EQ(code_of(pair.near->read(theirs->desc(), 0, theirs->desc(), 0, 1)), ErrorCode::not_found);
}

}  // namespace
}  // namespace stagewire::engine
