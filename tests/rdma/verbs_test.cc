// What only verbs have: settings that change how bytes are cut, and a device that refuses a request.
#include <gtest/gtest.h>

#include "conformance/contract.hpp"

namespace stagewire::rdma_test {
namespace {

using conformance::Bytes;
using conformance::bytes_of;
using conformance::drive;
using conformance::Memory;
using conformance::Side;

class Verbs : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!conformance::has_rdma()) GTEST_SKIP() << "needs an RDMA device, as scripts/rdma-vm has";
  }

  void connect(std::map<std::string, std::string, std::less<>> settings = {}) {
    BackendOptions options;
    options.settings = std::move(settings);
    a_ = std::make_unique<Side>(kRdma, options);
    b_ = std::make_unique<Side>(kRdma, options);
    to_b_ = a_->connect(*b_);
    ASSERT_TRUE(drive({a_.get(), b_.get()}, [&] { return to_b_->status().has_value(); }));
    ASSERT_TRUE(to_b_->status()->ok()) << to_b_->status()->error().to_string();
  }
  void TearDown() override { to_b_.reset(); }

  std::unique_ptr<RemoteRegion> import(const Registration& registration) {
    auto region = to_b_->import(registration.remote_key());
    EXPECT_TRUE(region.ok());
    EXPECT_TRUE(drive({a_.get(), b_.get()}, [&] { return (*region)->status().has_value(); }));
    return std::move(*region);
  }
  Result<Posted> post(std::uint64_t id, Operation operation, const Registration& local,
                      const RemoteRegion& remote, std::span<const Segment> segments) {
    return to_b_->post(conformance::request_of(operation, local, remote, segments, id));
  }
  bool wait_for(std::size_t completions) {
    return drive({a_.get(), b_.get()}, [&] { return a_->events.completions.size() == completions; });
  }
  const Completion* completion_of(std::uint64_t id) const {
    for (const Completion& completion : a_->events.completions) {
      if (completion.id == id) return &completion;
    }
    return nullptr;
  }

  const conformance::Subject kRdma{"rdma", "rdma", "", true};
  std::unique_ptr<Side> a_, b_;
  std::unique_ptr<Endpoint> to_b_;
};

// Every way to cut one transfer: pieces, chains, queue pairs.
TEST_F(Verbs, R19_pieces_and_queue_pairs_do_not_change_a_byte) {
  using Settings = std::map<std::string, std::string, std::less<>>;
  for (const Settings& settings :
       {Settings{{"rdma_max_piece", "4096"}}, Settings{{"rdma_max_piece", "65536"}, {"post_batch_size", "1"}},
        Settings{{"qp_per_transfer", "4"}},
        Settings{{"qp_per_transfer", "3"}, {"rdma_max_piece", "12345"}}}) {
    connect(settings);
    constexpr std::size_t kSize = 3'000'001;
    const Memory here(1 << 22);
    const Memory there(1 << 22);
    there.fill(1);
    here.fill(2);
    const auto local = a_->add(here.region());
    const auto remote = b_->add(there.region(), Access::remote_read_write);
    const auto imported = import(*remote);
    // Neighbours at the peer, apart here, and a hole.
    const std::vector<Segment> segments = {{100, 7, 1000}, {2000, 1007, kSize}, {3'500'000, 3'900'000, 17}};
    ASSERT_TRUE(post(1, Operation::read, *local, *imported, segments).ok());
    ASSERT_TRUE(wait_for(1));
    ASSERT_TRUE(a_->events.completions[0].status.ok())
        << a_->events.completions[0].status.error().to_string();
    for (const Segment& s : segments) {
      ASSERT_EQ(
          std::memcmp(here.bytes().data() + s.local_offset, there.bytes().data() + s.remote_offset, s.size),
          0);
    }
    EXPECT_EQ(here.differs(2, 0, 100), 100U);
    EXPECT_EQ(here.differs(2, 1100, 2000), 2000U);
    EXPECT_EQ(here.differs(2, 3'500'017, here.bytes().size()), here.bytes().size());
    here.fill(3);
    ASSERT_TRUE(post(2, Operation::write, *local, *imported, segments).ok());
    ASSERT_TRUE(wait_for(2));
    for (const Segment& s : segments) {
      ASSERT_EQ(
          std::memcmp(here.bytes().data() + s.local_offset, there.bytes().data() + s.remote_offset, s.size),
          0);
    }
    EXPECT_EQ(there.differs(1, 0, 7), 7U);
    EXPECT_EQ(there.differs(1, 1007 + kSize, 3'900'000), 3'900'000U);
    to_b_.reset();
  }
}

// The region goes while its key is still in use: the device refuses, the queue pairs break, and everything
// else goes on over new ones.
TEST_F(Verbs, R02_a_region_that_is_gone_ends_its_own_transfer_only) {
  connect();
  const Memory here(1 << 20);
  const Memory kept(1 << 20);
  const Memory gone(1 << 20);
  kept.fill(4);
  const auto local = a_->add(here.region());
  const auto kept_region = b_->add(kept.region(), Access::remote_read);
  auto gone_region = b_->add(gone.region(), Access::remote_read);
  const auto kept_import = import(*kept_region);
  const auto gone_import = import(*gone_region);
  gone_region.reset();
  const std::vector<Segment> half = {{0, 0, 1 << 19}};
  const std::vector<Segment> other_half = {{1 << 19, 1 << 19, 1 << 19}};
  ASSERT_TRUE(post(1, Operation::read, *local, *gone_import, half).ok());
  ASSERT_TRUE(post(2, Operation::read, *local, *kept_import, other_half).ok());
  ASSERT_TRUE(to_b_->send(bytes_of("in between"), {}, true).ok());
  ASSERT_TRUE(wait_for(2));
  ASSERT_NE(completion_of(1), nullptr);
  ASSERT_NE(completion_of(2), nullptr);
  EXPECT_EQ(completion_of(1)->status.error().code(), ErrorCode::not_found)
      << completion_of(1)->status.error().message();
  EXPECT_TRUE(completion_of(2)->status.ok());
  EXPECT_EQ(here.differs(4, 1 << 19, 1 << 20), 1U << 20);
  ASSERT_TRUE(drive({a_.get(), b_.get()}, [&] { return b_->events.messages.size() == 1; }));
  EXPECT_TRUE(b_->events.lost.empty());
  EXPECT_TRUE(to_b_->status()->ok());
  // And again, many times: nothing is used up by it.
  for (std::uint64_t id = 3; id < 13; ++id) {
    ASSERT_TRUE(drive({a_.get(), b_.get()}, [&] {
      const auto posted = post(id, Operation::read, *local, *gone_import, half);
      return !posted.ok() || *posted == Posted::pending;
    }));
    ASSERT_TRUE(wait_for(id));
    EXPECT_EQ(completion_of(id)->status.error().code(), ErrorCode::not_found);
  }
}

TEST_F(Verbs, R05_messages_and_notifications_survive_a_renewed_link_in_order_each_once) {
  connect();
  const Memory here(1 << 16);
  const Memory there(1 << 16);
  const Memory gone(4096);
  const auto local = a_->add(here.region());
  const auto region = b_->add(there.region(), Access::remote_write);
  auto gone_region = b_->add(gone.region(), Access::remote_write);
  const auto imported = import(*region);
  const auto gone_import = import(*gone_region);
  gone_region.reset();
  const std::vector<Segment> little = {{0, 0, 64}};
  std::uint32_t sent = 0;
  std::size_t posted_count = 0;
  for (std::uint32_t round = 0; round < 5; ++round) {
    // This one breaks the queue pairs while what follows is on its way.
    ASSERT_TRUE(drive({a_.get(), b_.get()}, [&] {
      const auto posted = post(1000 + round, Operation::write, *local, *gone_import, little);
      return posted.ok() && *posted == Posted::pending;
    }));
    ++posted_count;
    for (int i = 0; i < 50; ++i) {
      WorkRequest request;
      request.id = sent;
      request.operation = Operation::write;
      request.local = local.get();
      request.remote = imported.get();
      request.segments = little;
      request.notification = sent;
      ASSERT_TRUE(drive({a_.get(), b_.get()}, [&] {
        const auto posted = to_b_->post(request);
        return posted.ok() && *posted == Posted::pending;
      }));
      ++posted_count;
      ASSERT_TRUE(drive({a_.get(), b_.get()}, [&] {
        const auto message = to_b_->send(std::as_bytes(std::span(&sent, 1)), {}, true);
        EXPECT_TRUE(message.ok()) << message.error().to_string();
        return !message.ok() || *message == Posted::completed;
      }));
      ASSERT_FALSE(HasFailure());
      ++sent;
    }
  }
  ASSERT_TRUE(wait_for(posted_count));
  ASSERT_TRUE(drive({a_.get(), b_.get()}, [&] {
    return b_->events.messages.size() == sent && b_->events.notifications.size() == sent;
  }));
  a_->step();
  b_->step();
  ASSERT_EQ(b_->events.messages.size(), sent);
  ASSERT_EQ(b_->events.notifications.size(), sent);
  for (std::uint32_t i = 0; i < sent; ++i) {
    std::uint32_t number = 0;
    std::memcpy(&number, b_->events.messages[i].bytes.data(), sizeof number);
    ASSERT_EQ(number, i);
  }
  std::vector<bool> notified(sent);
  for (const auto& [peer, number] : b_->events.notifications) {
    ASSERT_LT(number, sent);
    EXPECT_FALSE(notified[number]) << "twice";
    notified[number] = true;
  }
  for (const Completion& completion : a_->events.completions) {
    EXPECT_EQ(completion.status.ok(), completion.id < 1000);
  }
}

}  // namespace
}  // namespace stagewire::rdma_test
