// What goes wrong while transfers are under way.
#include <algorithm>

#include "fake_verbs/fixture.hpp"

namespace stagewire::fake_verbs {
namespace {

/// Reads between two regions; each has its own bytes.
class FakeVerbsTrouble : public FakeVerbs {
 protected:
  static constexpr std::size_t kPiece = 256 * 1024;
  static constexpr std::size_t kReads = 16;

  void TearDown() override {
    imported_.reset();
    local_.reset();
    remote_.reset();
    FakeVerbs::TearDown();
  }
  void connect_with_regions(SettingMap settings = {}) {
    connect(std::move(settings));
    if (HasFatalFailure()) return;
    there_.fill(1);
    here_.fill(2);
    local_ = a_->add(here_.region());
    remote_ = b_->add(there_.region(), Access::remote_read_write);
    imported_ = import(*remote_);
  }
  void post_read(std::uint64_t id) {
    const std::size_t offset = id * kPiece;
    const Segment whole[] = {{offset, offset, kPiece}};
    post(request_of(id, Operation::read, *local_, *imported_, whole));
  }
  void post_reads() {
    for (std::uint64_t id = 0; id < kReads; ++id) post_read(id);
  }
  bool has_arrived(std::uint64_t id) const {
    return here_.differs(1, id * kPiece, (id + 1) * kPiece) == (id + 1) * kPiece;
  }
  void expect_all_arrived() {
    for (std::uint64_t id = 0; id < kReads; ++id) {
      EXPECT_TRUE(status_of(id).ok()) << id << ": " << status_of(id).error().to_string();
      EXPECT_TRUE(has_arrived(id)) << id;
    }
  }
  /// The queue pairs have failed, and others are being made.
  bool wait_for_renewal() {
    const int before = control().calls("create_qp");
    return until([&] { return control().calls("create_qp") > before; });
  }

  const Memory here_{kReads * kPiece};
  const Memory there_{kReads * kPiece};
  std::unique_ptr<Registration> local_, remote_;
  std::unique_ptr<RemoteRegion> imported_;
};

TEST_F(FakeVerbsTrouble, R05_a_vendor_error_costs_new_queue_pairs_and_nothing_else) {
  for (const int nth : {1, 2, 9, 15}) {
    SCOPED_TRACE(nth);
    connect_with_regions({{"rdma_max_piece", "65536"}});
    control().fail_request(nth, IBV_WC_GENERAL_ERR, 0x99);
    post_reads();
    send("in between");
    ASSERT_TRUE(wait_for(kReads));
    EXPECT_TRUE(control().request_failed());
    expect_all_arrived();
    ASSERT_TRUE(until([&] { return b_->events.messages.size() == 1; }));
    EXPECT_TRUE(b_->events.lost.empty());
    TearDown();
  }
}

TEST_F(FakeVerbsTrouble, R05_a_request_that_the_device_refuses_ends_alone_with_the_vendor_s_number) {
  connect_with_regions();
  control().fail_request(3, IBV_WC_LOC_QP_OP_ERR, 0x99);
  post_reads();
  ASSERT_TRUE(wait_for(kReads));
  std::size_t failed = 0;
  for (std::uint64_t id = 0; id < kReads; ++id) {
    const Status status = status_of(id);
    if (status.ok()) {
      EXPECT_TRUE(has_arrived(id));
      continue;
    }
    ++failed;
    EXPECT_EQ(status.error().code(), ErrorCode::failed);
    EXPECT_NE(status.error().message().find("vendor error 153"), std::string::npos)
        << status.error().message();
  }
  EXPECT_EQ(failed, 1U);
}

// Shorter than rdma_recovery_timeout_ms: nothing is lost, nothing comes twice.
TEST_F(FakeVerbsTrouble, R05_a_short_cut_is_survived) {
  connect_with_regions();
  for (int round = 0; round < 3; ++round) {
    a_->events.completions.clear();
    here_.fill(2);
    control().set_network(0, false);
    post_reads();
    for (int i = 0; i < 5; ++i)
      ASSERT_TRUE(to_b_->send(bytes_of(std::to_string(round * 5 + i)), {}, true).ok());
    ASSERT_TRUE(wait_for_renewal());
    control().set_network(0, true);
    ASSERT_TRUE(wait_for(kReads));
    expect_all_arrived();
    const auto wanted = static_cast<std::size_t>(round * 5 + 5);
    ASSERT_TRUE(until([&] { return b_->events.messages.size() >= wanted; }));
    ASSERT_EQ(b_->events.messages.size(), wanted);
  }
  for (std::size_t i = 0; i < b_->events.messages.size(); ++i) {
    EXPECT_EQ(b_->events.messages[i].bytes, bytes_of(std::to_string(i)));
  }
  EXPECT_TRUE(b_->events.lost.empty());
}

TEST_F(FakeVerbsTrouble, R05_a_long_cut_ends_everything_at_both_ends) {
  connect_with_regions({{"rdma_recovery_timeout_ms", "200"}});
  send("hello");
  ASSERT_TRUE(until([&] { return b_->events.messages.size() == 1; }));
  control().set_network(0, false);
  post_reads();
  ASSERT_TRUE(wait_for(kReads));
  for (std::uint64_t id = 0; id < kReads; ++id)
    EXPECT_EQ(status_of(id).error().code(), ErrorCode::unavailable);
  ASSERT_FALSE(to_b_->status()->ok());
  EXPECT_EQ(to_b_->status()->error().code(), ErrorCode::unavailable);
  ASSERT_TRUE(until([&] { return b_->events.lost.size() == 1; }));
  EXPECT_EQ(b_->events.lost[0].reason.code(), ErrorCode::unavailable);
  // And when it is mended, one connects again.
  control().set_network(0, true);
  to_b_ = a_->connect(*b_);
  ASSERT_TRUE(until([&] { return to_b_->status().has_value(); }));
  EXPECT_TRUE(to_b_->status()->ok()) << to_b_->status()->error().to_string();
}

TEST_F(FakeVerbsTrouble, R05_a_port_that_goes_down_hands_over_to_the_next_and_gets_back_its_turn) {
  control().set_devices(2);
  connect_with_regions();
  // -1 when both had some of them: the link was on its way from one to the other.
  const auto device_of_the_reads = [&] {
    const int before[] = {control().requests_done(0), control().requests_done(1)};
    a_->events.completions.clear();
    here_.fill(2);
    post_reads();
    EXPECT_TRUE(wait_for(kReads));
    expect_all_arrived();
    for (int device : {0, 1}) {
      const int other = 1 - device;
      if (control().requests_done(other) == before[other]) return device;
    }
    return -1;
  };
  EXPECT_EQ(device_of_the_reads(), 0);
  control().set_port(0, false);
  ASSERT_TRUE(until([&] { return to_b_->status()->ok() && device_of_the_reads() == 1; }));
  control().set_port(0, true);
  ASSERT_TRUE(until([&] { return to_b_->status()->ok() && device_of_the_reads() == 0; }));
  EXPECT_TRUE(b_->events.lost.empty());
}

TEST_F(FakeVerbsTrouble, R02_closing_with_transfers_under_way_stops_every_byte) {
  for (int round = 0; round < 20; ++round) {
    connect_with_regions({{"rdma_max_piece", "4096"}});
    const int before = control().requests_done(0);
    post_reads();
    ASSERT_TRUE(until([&] { return control().requests_done(0) > before + 20 * round; }));
    to_b_.reset();
    here_.fill(3);
    ASSERT_TRUE(drive({a_.get()}, [&] { return a_->events.completions.size() == kReads; }));
    for (const Completion& completion : a_->events.completions) {
      EXPECT_TRUE(completion.status.ok() || completion.status.error().code() == ErrorCode::closed);
    }
    ASSERT_TRUE(until([&] { return b_->events.lost.size() == b_->events.arrived.size(); }));
    EXPECT_EQ(here_.differs(3, 0, kReads * kPiece), kReads * kPiece);
    TearDown();
  }
}

TEST_F(FakeVerbsTrouble, a_backend_goes_with_transfers_under_way_and_its_peer_is_told) {
  for (int round = 0; round < 10; ++round) {
    connect_with_regions({{"rdma_recovery_timeout_ms", "3600000"}});
    send("hello");
    ASSERT_TRUE(until([&] { return b_->events.messages.size() == 1; }));
    post_reads();
    a_->backend.reset();
    to_b_.reset();
    ASSERT_TRUE(drive({b_.get()}, [&] { return b_->events.lost.size() == 1; })) << "the farewell was lost";
    TearDown();
  }
}

// The worker is inside of verbs with the queue pairs while the link ends.
TEST_F(FakeVerbsTrouble, an_endpoint_that_goes_while_it_is_being_connected) {
  for (const char* function : {"modify_qp", "create_qp", "reg_mr", "create_ah"}) {
    make_sides();
    control().hold(function);
    to_b_ = a_->connect(*b_);
    // One of the connection's own: all others have been called.
    ASSERT_TRUE(until([&] { return control().waiting(function) > 0; })) << function;
    to_b_.reset();
    control().release(function);
    ASSERT_TRUE(until([&] { return control().waiting(function) == 0; }));
    TearDown();
  }
}

TEST_F(FakeVerbsTrouble, an_endpoint_that_goes_between_answer_and_connection) {
  make_sides();
  control().hold("create_ah");
  to_b_ = a_->connect(*b_);
  ASSERT_TRUE(until([&] { return control().waiting("create_ah") == 1; }));
  control().release("create_ah");
  // The answer waits for our own look: what calls modify_qp next is we.
  ASSERT_TRUE(drive({b_.get()}, [&] { return control().calls("create_ah") == 2; }));
  control().hold("modify_qp");
  ASSERT_TRUE(until([&] { return control().waiting("modify_qp") > 0; }));
  to_b_.reset();
  control().release("modify_qp");
  ASSERT_TRUE(until([&] { return control().waiting("modify_qp") == 0; }));
}

TEST_F(FakeVerbsTrouble, an_endpoint_that_goes_while_its_link_is_renewed_tells_its_peer) {
  connect_with_regions({{"rdma_recovery_timeout_ms", "3600000"}});
  send("hello");
  ASSERT_TRUE(until([&] { return b_->events.messages.size() == 1; }));
  control().hold("create_qp");
  control().fail_request(1, IBV_WC_GENERAL_ERR, 1);
  post_read(0);
  ASSERT_TRUE(until([&] { return control().waiting("create_qp") == 1; }));
  to_b_.reset();
  control().release("create_qp");
  ASSERT_TRUE(until([&] { return b_->events.lost.size() == 1; }));
}

TEST_F(FakeVerbsTrouble, a_slot_is_given_back_after_its_backend_has_gone) {
  connect_with_regions();
  std::vector<PayloadSlot> slots;
  ASSERT_TRUE(until([&] {
    slots.push_back(to_b_->reserve(100));
    return slots.back().bytes.empty();
  }));
  ASSERT_GT(slots.size(), 1U);
  a_->backend.reset();
  to_b_->abandon(slots.front());
}

TEST_F(FakeVerbsTrouble, a_farewell_that_cannot_be_posted) {
  connect_with_regions();
  control().fail_call("post_send", 1, ENOMEM);
  to_b_.reset();
  ASSERT_TRUE(until([&] { return b_->events.lost.size() == b_->events.arrived.size(); }));
}

// A peer's address is looked for anew while a greeting is on its way to the old one.
TEST_F(FakeVerbsTrouble, R05_greetings_to_nobody_look_for_the_address_anew) {
  make_sides({{"rdma_recovery_timeout_ms", "2500"}});
  control().set_network(0, false);
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  for (int i = 0; i < 8; ++i) endpoints.push_back(a_->connect(*b_));
  ASSERT_TRUE(until([&] {
    return std::all_of(endpoints.begin(), endpoints.end(),
                       [](const auto& e) { return e->status().has_value(); });
  }));
  for (const auto& endpoint : endpoints)
    EXPECT_EQ(endpoint->status()->error().code(), ErrorCode::unavailable);
  EXPECT_GT(control().calls("create_ah"), 1);
}

// Its number is in every peer's hands: it must work again under the same.
TEST_F(FakeVerbsTrouble, R05_greetings_go_on_after_their_queue_pair_has_failed) {
  make_sides();
  for (int round = 0; round < 3; ++round) {
    control().fail_datagrams(0);  // both sides', and what waits in them
    to_b_ = a_->connect(*b_);
    ASSERT_TRUE(until([&] { return to_b_->status().has_value(); }));
    ASSERT_TRUE(to_b_->status()->ok()) << to_b_->status()->error().to_string();
    to_b_.reset();
  }
  // While it cannot be mended, it is tried again.
  control().fail_calls_from("modify_qp", 1, EIO);
  control().fail_datagrams(0);
  ASSERT_TRUE(until([&] { return control().calls("modify_qp") >= 4; }));
  control().fail_calls_from("modify_qp", 0, 0);
  to_b_ = a_->connect(*b_);
  ASSERT_TRUE(until([&] { return to_b_->status().has_value(); }));
  EXPECT_TRUE(to_b_->status()->ok()) << to_b_->status()->error().to_string();
}

TEST_F(FakeVerbsTrouble, R05_data_is_spread_over_rails_and_goes_on_over_those_that_are_left) {
  control().set_devices(2);
  connect_with_regions({{"rails_per_transfer", "2"}, {"qp_per_transfer", "2"}});
  // Which devices carry the bytes of a batch, as bits.
  const auto rails_in_use = [&] {
    const int before[] = {control().requests_done(0), control().requests_done(1)};
    a_->events.completions.clear();
    here_.fill(2);
    post_reads();
    EXPECT_TRUE(wait_for(kReads));
    expect_all_arrived();
    // Frames are few, reads are many.
    const auto used = [&](int device) { return control().requests_done(device) - before[device] >= 8; };
    return (used(0) ? 1 : 0) | (used(1) ? 2 : 0);
  };
  EXPECT_EQ(rails_in_use(), 3);
  for (const int device : {1, 0}) {
    control().set_port(device, false);
    ASSERT_TRUE(until([&] { return rails_in_use() == 1 << (1 - device); })) << device;
    control().set_port(device, true);
    ASSERT_TRUE(until([&] { return rails_in_use() == 3; })) << device;
  }
  // Without an event of the device, too: what gets no answer is left out.
  control().set_network(1, false);
  ASSERT_TRUE(until([&] { return rails_in_use() == 1; }));
  EXPECT_TRUE(b_->events.lost.empty());
  EXPECT_TRUE(to_b_->status()->ok());
}

}  // namespace
}  // namespace stagewire::fake_verbs
