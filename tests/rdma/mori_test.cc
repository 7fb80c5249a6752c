// Our engine and one of MORI-IO's: either begins, over real or simulated verbs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "conformance/contract.hpp"
#include "rdma/independent_peer.hpp"
#include "stagewire/engine.hpp"

namespace stagewire::rdma_test {
namespace {

using conformance::Memory;
using ::testing::HasSubstr;

constexpr Milliseconds kPatience{20'000};
constexpr std::size_t kSize = 3 << 20;

Octets octets(std::span<const std::byte> bytes) {
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  return {data, data + bytes.size()};
}
std::span<const std::byte> bytes_of(const Octets& octets) {
  return std::as_bytes(std::span(octets));
}

class Mori : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!conformance::has_rdma()) GTEST_SKIP() << "needs an RDMA device, as scripts/rdma-vm has";
    make_engine({});
  }
  void make_engine(std::map<std::string, std::string, std::less<>> settings) {
    engine_.reset();
    IOEngineConfig config;
    config.key = "ours";
    config.backends = {"mori"};
    config.backend_settings = std::move(settings);
    // A broken connection of simulated verbs shows after 2 * 4 ms; a guest may be as slow as that.
    if (std::getenv("STAGEWIRE_IBVERBS") != nullptr) {
      config.backend_settings.try_emplace("rdma_ack_timeout", "10");
      config.backend_settings.try_emplace("rdma_retry_count", "1");
    }
    auto engine = IOEngine::create(config);
    ASSERT_TRUE(engine.ok()) << engine.error().to_string();
    engine_ = std::move(*engine);
    them_ = IndependentPeer::read_engine(octets(engine_->desc().pack()));
  }
  MemoryDesc add(const Memory& memory, Access access) {
    auto desc = engine_->register_memory(memory.region(), access);
    EXPECT_TRUE(desc.ok()) << desc.error().to_string();
    return *desc;
  }
  /// As it has learned of it by the descriptors that we handed over.
  IndependentPeer::Region ask(IndependentPeer& peer, const IndependentPeer::Pair& pair,
                              const MemoryDesc& desc) {
    return peer.ask_region(them_, pair.peer_device, IndependentPeer::read_memory(octets(desc.pack())).id);
  }
  /// The peer's memory, as we know it by the descriptor that it hands over.
  static MemoryDesc theirs(const Octets& packed) {
    auto desc = MemoryDesc::unpack(bytes_of(packed));
    EXPECT_TRUE(desc.ok());
    return *desc;
  }
  EngineDesc introduce(const IndependentPeer& peer) {
    auto desc = EngineDesc::unpack(bytes_of(peer.engine_desc()));
    EXPECT_TRUE(desc.ok());
    EXPECT_TRUE(engine_->register_remote_engine(*desc).ok());
    return *desc;
  }

  std::unique_ptr<IOEngine> engine_;
  IndependentPeer::Engine them_;
};

TEST_F(Mori, an_initiator_of_theirs_writes_reads_and_notifies) {
  const Memory here(kSize);
  const Memory there(kSize);
  const MemoryDesc ours = add(here, Access::remote_read_write);
  IndependentPeer peer("initiator");
  peer.add_memory(0, there.bytes().data(), kSize);
  std::vector<IndependentPeer::Pair> pairs;
  for (int i = 0; i < 4; ++i) pairs.push_back(peer.connect(them_));
  const auto region = ask(peer, pairs[0], ours);
  EXPECT_EQ(region.address, reinterpret_cast<std::uintptr_t>(here.bytes().data()));
  EXPECT_EQ(region.size, kSize);

  there.fill(1);
  constexpr std::size_t kQuarter = kSize / 4;
  for (std::size_t i = 0; i < 4; ++i) {
    ASSERT_EQ(peer.move(pairs[i], true, 0, i * kQuarter, region, i * kQuarter, kQuarter), IBV_WC_SUCCESS);
  }
  EXPECT_FALSE(engine_->pop_inbound("initiator", 42));
  peer.notify({pairs[0], pairs[1], pairs[2]}, 41);
  ASSERT_TRUE(engine_->wait_inbound("initiator", 41, kPatience).ok());
  for (std::int32_t i = 0; i < 3; ++i) peer.notify_one(pairs[static_cast<std::size_t>(i)], 42, i, 4);
  peer.notify({pairs[0]}, 43);
  ASSERT_TRUE(engine_->wait_inbound("initiator", 43, kPatience).ok());
  EXPECT_FALSE(engine_->pop_inbound("initiator", 42)) << "one of its four is missing";
  peer.notify_one(pairs[3], 42, 3, 4);
  ASSERT_TRUE(engine_->wait_inbound("initiator", 42, kPatience).ok());
  EXPECT_FALSE(engine_->pop_inbound("initiator", 42)) << "it is taken once";
  EXPECT_EQ(here.differs(1, 0, kSize), kSize);

  here.fill(2);
  ASSERT_EQ(peer.move(pairs[1], false, 0, 0, region, 0, kSize), IBV_WC_SUCCESS);
  EXPECT_EQ(there.differs(2, 0, kSize), kSize);
}

TEST_F(Mori, R16_an_initiator_of_theirs_gets_what_is_granted_and_no_more) {
  const Memory readable(1 << 16);
  const Memory hidden(1 << 16);
  const Memory there(1 << 16);
  const MemoryDesc ours = add(readable, Access::remote_read);
  const MemoryDesc local = add(hidden, Access::local_only);
  readable.fill(1);
  IndependentPeer peer("initiator");
  peer.add_memory(0, there.bytes().data(), 1 << 16);
  const auto reader = peer.connect(them_);
  const auto region = ask(peer, reader, ours);
  EXPECT_EQ(ask(peer, reader, local).size, 0U) << "nobody was told of that region";
  EXPECT_EQ(peer.ask_region(them_, reader.peer_device, 4711).size, 0U);
  EXPECT_EQ(peer.ask_region(them_, 99, ours.id).size, 0U) << "there is no such port";
  ASSERT_EQ(peer.move(reader, false, 0, 0, region, 0, 1 << 16), IBV_WC_SUCCESS);
  EXPECT_EQ(there.differs(1, 0, 1 << 16), 1U << 16);
  there.fill(2);
  EXPECT_EQ(peer.move(reader, true, 0, 0, region, 0, 64), IBV_WC_REM_ACCESS_ERR);
  const auto again = peer.connect(them_);
  EXPECT_EQ(peer.move(again, false, 0, 0, region, 1 << 15, 1 << 16), IBV_WC_REM_ACCESS_ERR)
      << "beyond its end";
  EXPECT_EQ(readable.differs(1, 0, 1 << 16), 1U << 16);
}

// R01: from the deregistration on, what the initiator knows is worth nothing.
TEST_F(Mori, R01_a_region_that_was_deregistered_is_not_written) {
  const Memory here(1 << 16);
  const Memory there(1 << 16);
  const MemoryDesc ours = add(here, Access::remote_write);
  IndependentPeer peer("initiator");
  peer.add_memory(0, there.bytes().data(), 1 << 16);
  const auto pair = peer.connect(them_);
  const auto region = ask(peer, pair, ours);
  const MemoryDesc twin = add(here, Access::remote_write);  // the same range: a registration of its own
  ASSERT_TRUE(engine_->deregister_memory(ours).ok());
  here.fill(7);
  there.fill(8);
  EXPECT_EQ(peer.move(pair, true, 0, 0, region, 0, 1 << 16), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(here.differs(7, 0, 1 << 16), 1U << 16);
  const auto second = peer.connect(them_);
  EXPECT_EQ(ask(peer, second, ours).size, 0U);
  const auto living = ask(peer, second, twin);
  EXPECT_EQ(peer.move(second, true, 0, 0, living, 0, 1 << 16), IBV_WC_SUCCESS);
  EXPECT_EQ(here.differs(8, 0, 1 << 16), 1U << 16);
}

TEST_F(Mori, a_target_of_theirs_is_written_read_and_notified) {
  for (const char* pairs : {"1", "4"}) {
    make_engine({{"qp_per_transfer", pairs}, {"rdma_max_piece", "65536"}});
    const Memory here(kSize);
    const Memory there(kSize);
    IndependentPeer peer("target");
    peer.listen();
    const MemoryDesc remote = theirs(peer.add_memory(5, there.bytes().data(), kSize));
    introduce(peer);
    const MemoryDesc local = add(here, Access::local_only);
    here.fill(1);
    there.fill(9);
    TransferOptions options;
    options.notify = true;
    options.id = 1234;
    const TransferPiece pieces[] = {{0, 100, 1 << 20}, {2 << 20, (1 << 20) + 100, 77}, {5, 3'000'000, 4096}};
    const auto written = engine_->batch_write(local, remote, pieces, options);
    ASSERT_TRUE(written->wait_for(kPatience).ok()) << written->message();
    EXPECT_TRUE(peer.wait_notified(1234, std::atoi(pairs)));
    EXPECT_EQ(peer.accepted(), static_cast<std::size_t>(std::atoi(pairs)));
    for (const TransferPiece& p : pieces) {
      EXPECT_EQ(
          std::memcmp(here.bytes().data() + p.local_offset, there.bytes().data() + p.remote_offset, p.size),
          0);
    }
    EXPECT_EQ(there.differs(9, 0, 100), 100U);
    EXPECT_EQ(there.differs(9, (1 << 20) + 177, 3'000'000), 3'000'000U);
    EXPECT_EQ(there.differs(9, 3'004'096, kSize), kSize);
    there.fill(3);
    const auto read = engine_->read(local, 0, remote, 0, kSize);
    ASSERT_TRUE(read->wait_for(kPatience).ok()) << read->message();
    EXPECT_EQ(here.differs(3, 0, kSize), kSize);
  }
}

TEST_F(Mori, many_transfers_at_once_each_end_once) {
  const Memory here(1 << 20);
  const Memory there(1 << 20);
  IndependentPeer peer("target");
  peer.listen();
  const MemoryDesc remote = theirs(peer.add_memory(0, there.bytes().data(), 1 << 20));
  introduce(peer);
  const MemoryDesc local = add(here, Access::local_only);
  here.fill(6);
  std::vector<Transfer> transfers;
  for (std::uint64_t i = 0; i < 1024; ++i) {
    transfers.push_back(engine_->write(local, i * 1024, remote, i * 1024, 1024));
  }
  for (const Transfer& transfer : transfers)
    ASSERT_TRUE(transfer->wait_for(kPatience).ok()) << transfer->message();
  EXPECT_EQ(there.differs(6, 0, 1 << 20), 1U << 20);
}

// It has notifications switched off: it would take the first, after which nothing moves any more (R05).
TEST_F(Mori, R05_a_target_that_takes_no_notification_is_a_named_error) {
  const Memory here(4096);
  const Memory there(4096);
  IndependentPeer peer("deaf");
  peer.listen(false);
  const MemoryDesc remote = theirs(peer.add_memory(0, there.bytes().data(), 4096));
  introduce(peer);
  const MemoryDesc local = add(here, Access::local_only);
  TransferOptions options;
  options.notify = true;
  const auto written = engine_->write(local, 0, remote, 0, 4096, options);
  const Status done = written->wait_for(kPatience);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code(), ErrorCode::unavailable);
  EXPECT_THAT(done.error().message(), HasSubstr("enable_notification"));
  ASSERT_TRUE(engine_->write(local, 0, remote, 0, 4096)->wait_for(kPatience).ok()) << "without one it goes";
}

// What was one broken queue pair for good with MORI-IO: the transfer ends, the next one goes over others.
TEST_F(Mori, R05_a_broken_queue_pair_ends_its_transfers_and_is_replaced) {
  const Memory here(1 << 16);
  const Memory there(1 << 16);
  IndependentPeer peer("target");
  peer.listen();
  const MemoryDesc remote = theirs(peer.add_memory(0, there.bytes().data(), 1 << 16));
  introduce(peer);
  const MemoryDesc local = add(here, Access::local_only);
  ASSERT_TRUE(engine_->write(local, 0, remote, 0, 64)->wait_for(kPatience).ok());
  for (int round = 0; round < 3; ++round) {
    peer.break_accepted();
    const Status failed = engine_->write(local, 0, remote, 0, 64)->wait_for(kPatience);
    ASSERT_FALSE(failed.ok());
    EXPECT_EQ(failed.error().code(), ErrorCode::unavailable) << failed.error().to_string();
    here.fill(static_cast<std::uint64_t>(round));
    const auto next = engine_->write(local, 0, remote, 0, 1 << 16);
    ASSERT_TRUE(next->wait_for(kPatience).ok()) << next->message();
    EXPECT_EQ(there.differs(static_cast<std::uint64_t>(round), 0, 1 << 16), 1U << 16);
  }
}

TEST_F(Mori, R09_a_target_that_was_restarted_is_another) {
  const Memory here(4096);
  const Memory there(4096);
  const MemoryDesc local = add(here, Access::local_only);
  std::optional<IndependentPeer> peer(std::in_place, "target");
  peer->listen();
  const MemoryDesc old_remote = theirs(peer->add_memory(0, there.bytes().data(), 4096));
  introduce(*peer);
  ASSERT_TRUE(engine_->write(local, 0, old_remote, 0, 4096)->wait_for(kPatience).ok());
  peer.reset();
  const Status gone = engine_->write(local, 0, old_remote, 0, 4096)->wait_for(kPatience);
  ASSERT_FALSE(gone.ok());
  EXPECT_EQ(gone.error().code(), ErrorCode::unavailable) << gone.error().to_string();
  peer.emplace("target");
  peer->listen();
  const MemoryDesc remote = theirs(peer->add_memory(0, there.bytes().data(), 4096));
  introduce(*peer);
  here.fill(4);
  const auto written = engine_->write(local, 0, remote, 0, 4096);
  ASSERT_TRUE(written->wait_for(kPatience).ok()) << written->message();
  EXPECT_EQ(there.differs(4, 0, 4096), 4096U);
}

TEST_F(Mori, regions_that_are_not_there_are_named_errors) {
  const Memory here(8192);
  const Memory there(8192);
  const MemoryDesc local = add(here, Access::local_only);
  IndependentPeer peer("target");
  peer.listen();
  MemoryDesc remote = theirs(peer.add_memory(3, there.bytes().data(), 8192));
  introduce(peer);
  ASSERT_TRUE(engine_->write(local, 0, remote, 0, 8192)->wait_for(kPatience).ok());
  peer.forget_memory(3);
  // The peer's device refuses, or, asked anew, the peer knows nothing of it.
  for (int i = 0; i < 2; ++i) {
    const Status refused = engine_->write(local, 0, remote, 0, 8192)->wait_for(kPatience);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code(), ErrorCode::not_found) << refused.error().to_string();
  }
  // Registered anew with another size: the old descriptor is stale.
  peer.add_memory(3, there.bytes().data(), 4096);
  const Status stale = engine_->write(local, 0, remote, 0, 4096)->wait_for(kPatience);
  ASSERT_FALSE(stale.ok());
  EXPECT_THAT(stale.error().message(), HasSubstr("has 4096 bytes"));
}

TEST_F(Mori, nobody_at_the_port_is_a_named_error) {
  const Memory here(64);
  const MemoryDesc local = add(here, Access::local_only);
  MemoryDesc remote;
  {
    IndependentPeer peer("target");
    peer.listen();
    remote = theirs(peer.add_memory(0, here.bytes().data(), 64));
    introduce(peer);
  }
  const Status failed = engine_->write(local, 0, remote, 0, 64)->wait_for(kPatience);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code(), ErrorCode::unavailable);
  EXPECT_THAT(failed.error().message(), HasSubstr("the engine at 127.0.0.1:"));
}

// What reaches the port is anybody's: each of these is refused, and the next one is served.
TEST_F(Mori, R16_nonsense_at_the_port_harms_nobody) {
  IndependentPeer peer("initiator");
  const auto pair = peer.connect(them_);
  const Octets good = peer.register_frame(pair);
  std::vector<Octets> bad = {{2, 0, 0, 0, 0},
                             {0, 0xff, 0xff, 0xff, 0xff},
                             {0, 0, 0, 0, 0},
                             {1, 0, 0, 0, 1, 0xc0},
                             {1, 0, 0, 0, 3, 0x94, 0xa0, 0x00},
                             {0, 0, 0x10, 0, 0},
                             {1, 0, 0, 0, 2, 0xdd, 0xff}};
  for (std::size_t cut = 5; cut < good.size(); cut += 7) {
    Octets frame(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(cut));
    frame[4] = static_cast<std::uint8_t>(cut - 5);  // the size is right, the message is cut off
    bad.push_back(std::move(frame));
  }
  for (const Octets& frame : bad) EXPECT_TRUE(IndependentPeer::exchange(them_, frame).empty());
  EXPECT_FALSE(IndependentPeer::exchange(them_, good).empty());
}

TEST_F(Mori, R16_notifications_that_make_no_sense_end_their_queue_pair_only) {
  IndependentPeer peer("initiator");
  const auto bad = peer.connect(them_);
  const auto good = peer.connect(them_);
  peer.notify_one(bad, 1, 0, 0);
  peer.notify_one(good, 2, 0, 1);
  EXPECT_TRUE(engine_->wait_inbound("initiator", 2, kPatience).ok());
  const auto minus = peer.connect(them_);
  peer.notify_one(minus, 3, -1, 4);
  const auto beyond = peer.connect(them_);
  peer.notify_one(beyond, 3, 4, 4);
  peer.notify_one(good, 4, 0, 1);
  EXPECT_TRUE(engine_->wait_inbound("initiator", 4, kPatience).ok());
  EXPECT_FALSE(engine_->pop_inbound("initiator", 1));
  EXPECT_FALSE(engine_->pop_inbound("initiator", 3));
}

TEST_F(Mori, two_of_our_own_engines_speak_it_too) {
  IOEngineConfig config;
  config.key = "other";
  config.backends = {"mori"};
  auto other = IOEngine::create(config);
  ASSERT_TRUE(other.ok()) << other.error().to_string();
  const Memory here(kSize);
  const Memory there(kSize);
  const MemoryDesc local = add(here, Access::local_only);
  const auto remote = (*other)->register_memory(there.region(), Access::remote_write);
  ASSERT_TRUE(remote.ok());
  ASSERT_TRUE(engine_->register_remote_engine((*other)->desc()).ok());
  here.fill(5);
  TransferOptions options;
  options.notify = true;
  options.id = 77;
  const auto written = engine_->write(local, 0, *remote, 0, kSize, options);
  ASSERT_TRUE(written->wait_for(kPatience).ok()) << written->message();
  ASSERT_TRUE((*other)->wait_inbound("ours", 77, kPatience).ok());
  EXPECT_EQ(there.differs(5, 0, kSize), kSize);
  const Status refused = engine_->read(local, 0, *remote, 0, 64)->wait_for(kPatience);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::permission);
}

}  // namespace
}  // namespace stagewire::rdma_test
