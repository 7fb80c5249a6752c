// Connections and messages: what every backend must do, both ends in one process.

#include "conformance/contract.hpp"

#include <poll.h>

namespace stagewire::conformance {
namespace {

TEST_P(Contract, connects_and_says_who_came) {
  EXPECT_TRUE(a.backend->reaches(b.backend->address()).ok());
  EXPECT_TRUE(b.backend->reaches(a.backend->address()).ok());
  connect();
  EXPECT_EQ(b.events.arrived[0], bytes_of(a.backend->address()));
  to_b.reset();
  ASSERT_TRUE(drive({&a, &b}, [&] { return b.events.lost.size() == 1; }));
  EXPECT_EQ(b.events.lost[0].peer, 1U);
  EXPECT_EQ(b.events.lost[0].reason.code(), ErrorCode::unavailable);
}

TEST_P(Contract, messages_arrive_in_order_with_their_payloads) {
  connect();
  Bytes expected = bytes_of("payload of the first");
  PayloadSlot slot;
  ASSERT_TRUE(drive({&a, &b}, [&] { return !(slot = to_b->reserve(expected.size())).bytes.empty(); }));
  ASSERT_EQ(slot.bytes.size(), expected.size());
  std::memcpy(slot.bytes.data(), expected.data(), expected.size());
  send("one", slot);
  send("two");
  send("");
  ASSERT_TRUE(drive({&a, &b}, [&] { return b.events.messages.size() == 3; }));
  EXPECT_EQ(b.events.messages[0].bytes, bytes_of("one"));
  EXPECT_EQ(bytes_of(b.events.messages[0].payload.bytes()), expected);
  EXPECT_EQ(b.events.messages[1].bytes, bytes_of("two"));
  EXPECT_TRUE(b.events.messages[1].payload.empty());
  EXPECT_TRUE(b.events.messages[2].bytes.empty());
}

TEST_P(Contract, order_holds_with_a_full_ring) {
  connect();
  constexpr std::uint32_t kCount = 5000;
  std::uint32_t sent = 0;
  std::uint32_t refused = 0;
  const auto received_in_order = [&] {
    for (std::size_t i = 0; i < b.events.messages.size(); ++i) {
      std::uint32_t number = 0;
      std::memcpy(&number, b.events.messages[i].bytes.data(), sizeof number);
      if (number != i) return false;
    }
    return true;
  };
  ASSERT_TRUE(drive({&a}, [&] {
    // Sizes that wrap the ring at every offset. The receiver looks only when nothing fits any more.
    Bytes message(sizeof sent + sent % 97);
    std::memcpy(message.data(), &sent, sizeof sent);
    const auto posted = to_b->send(message, {}, sent % 3 == 0);
    EXPECT_TRUE(posted.ok());
    if (posted && *posted == Posted::full) {
      ++refused;
      b.step();
    } else {
      ++sent;
    }
    return sent == kCount;
  }));
  ASSERT_TRUE(drive({&a, &b}, [&] { return b.events.messages.size() == kCount; }));
  EXPECT_GT(refused, 0U);
  EXPECT_TRUE(received_in_order());
}

TEST_P(Contract, payload_slots_run_out_and_come_back_in_any_order) {
  connect();
  std::vector<PayloadSlot> slots;
  ASSERT_TRUE(drive({&a, &b}, [&] {
    const PayloadSlot slot = to_b->reserve(1000);
    if (!slot.bytes.empty()) slots.push_back(slot);
    return slots.size() == 4;
  }));
  EXPECT_TRUE(to_b->reserve(1000).bytes.empty());
  for (std::size_t i = 0; i < 3; ++i) {
    std::memset(slots[i].bytes.data(), static_cast<int>('a' + i), 1000);
    send("with payload", slots[i]);
  }
  to_b->abandon(slots[3]);
  ASSERT_TRUE(drive({&a, &b}, [&] { return b.events.messages.size() == 3; }));
  slots[3] = to_b->reserve(10);
  EXPECT_FALSE(slots[3].bytes.empty());
  EXPECT_TRUE(to_b->reserve(10).bytes.empty());
  // The second one comes back; the others keep their bytes while its slot is used again.
  b.events.messages[1].payload = {};
  PayloadSlot again;
  ASSERT_TRUE(drive({&a, &b}, [&] { return !(again = to_b->reserve(1000)).bytes.empty(); }));
  std::memset(again.bytes.data(), 'x', 1000);
  send("again", again);
  ASSERT_TRUE(drive({&a, &b}, [&] { return b.events.messages.size() == 4; }));
  EXPECT_EQ(b.events.messages[0].payload.bytes()[999], std::byte{'a'});
  EXPECT_EQ(b.events.messages[2].payload.bytes()[999], std::byte{'c'});
  EXPECT_EQ(b.events.messages[3].payload.bytes()[999], std::byte{'x'});
  to_b->abandon(slots[3]);
}

TEST_P(Contract, a_payload_outlives_its_connection_and_its_backend) {
  connect();
  PayloadSlot slot;
  ASSERT_TRUE(drive({&a, &b}, [&] { return !(slot = to_b->reserve(5)).bytes.empty(); }));
  std::memcpy(slot.bytes.data(), "hello", 5);
  send("message", slot);
  ASSERT_TRUE(drive({&a, &b}, [&] { return b.events.messages.size() == 1; }));
  const MessagePayload kept = std::move(b.events.messages[0].payload);
  to_b.reset();
  ASSERT_TRUE(drive({&a, &b}, [&] { return b.events.lost.size() == 1; }));
  a.backend.reset();
  b.backend.reset();
  EXPECT_EQ(bytes_of(kept.bytes()), bytes_of("hello"));
}

TEST_P(Contract, what_is_too_large_is_refused_with_the_limit) {
  connect();
  const std::size_t limit = a.backend->capabilities().max_message_size;
  send(std::string(limit, 'm'));
  const auto refused = to_b->send(Bytes(limit + 1), {}, true);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::too_large);
  EXPECT_NE(refused.error().message().find(std::to_string(limit)), std::string::npos);
  EXPECT_TRUE(to_b->reserve(a.backend->capabilities().max_payload_size + 1).bytes.empty());
  ASSERT_TRUE(drive({&a, &b}, [&] { return b.events.messages.size() == 1; }));
  EXPECT_EQ(b.events.messages[0].bytes.size(), limit);
}

TEST_P(Contract, addresses_and_keys_that_are_nonsense_are_refused) {
  EXPECT_EQ(a.backend->reaches(bytes_of("nonsense")).error().code(), ErrorCode::corrupt);
  EXPECT_FALSE(a.backend->connect(bytes_of("")).ok());
  connect();
  EXPECT_EQ(to_b->import(bytes_of("nonsense")).error().code(), ErrorCode::corrupt);
  // A forged token: one byte of a real key after the other.
  const Memory there(4096);
  const auto registered = b.add(there.region(), Access::remote_read);
  std::vector<std::unique_ptr<RemoteRegion>> forged;
  for (std::size_t i = 0; i < registered->remote_key().size(); ++i) {
    Bytes key = bytes_of(registered->remote_key());
    key[i] ^= std::byte{0x40};
    if (auto region = to_b->import(key)) forged.push_back(std::move(*region));
  }
  for (const auto& region : forged) {
    ASSERT_TRUE(drive({&a, &b}, [&] { return region->status().has_value(); }));
  }
  ASSERT_TRUE(to_b->status()->ok());
}

TEST_P(Contract, one_of_many_peers_goes_and_the_others_stay) {
  connect();
  Side c(GetParam(), small());
  auto c_to_b = c.connect(b);
  ASSERT_TRUE(
      drive({&a, &b, &c}, [&] { return c_to_b->status().has_value() && b.events.arrived.size() == 2; }));
  to_b.reset();
  ASSERT_TRUE(drive({&a, &b, &c}, [&] { return b.events.lost.size() == 1; }));
  ASSERT_TRUE(c_to_b->send(bytes_of("still here"), {}, true).ok());
  ASSERT_TRUE(drive({&b, &c}, [&] { return b.events.messages.size() == 1; }));
  EXPECT_EQ(b.events.messages[0].peer, 2U);
  // The one that went comes back as a new peer.
  to_b = a.connect(b);
  ASSERT_TRUE(drive({&a, &b}, [&] { return b.events.arrived.size() == 3 && to_b->status().has_value(); }));
  EXPECT_TRUE(to_b->status()->ok());
}

TEST_P(Contract, a_peer_that_closes_is_noticed_by_its_socket) {
  connect();
  b.backend.reset();
  ASSERT_TRUE(drive({&a}, [&] { return !to_b->status()->ok(); }));
  EXPECT_EQ(to_b->status()->error().code(), ErrorCode::unavailable);
  EXPECT_EQ(to_b->send(bytes_of("x"), {}, true).error().code(), ErrorCode::unavailable);
}

TEST_P(Contract, R09_a_restarted_peer_is_reached_at_its_new_address) {
  connect();
  b.backend.reset();
  ASSERT_TRUE(drive({&a}, [&] { return !to_b->status()->ok(); }));
  to_b.reset();
  b = Side(GetParam(), small());
  connect();
  send("hello again");
  ASSERT_TRUE(drive({&a, &b}, [&] { return b.events.messages.size() == 1; }));
}

// Asleep until poll() says otherwise: what arm() and wait_fd() promise.
TEST_P(Contract, urgent_messages_wake_others_wait_for_the_next_look) {
  connect();
  const auto readable = [](const Side& side, int timeout_ms) {
    pollfd waited{side.backend->wait_fd(), POLLIN, 0};
    return ::poll(&waited, 1, timeout_ms) > 0;
  };
  const auto asleep = [&] { return drive({&a, &b}, [&] { return b.backend->arm() && !readable(b, 0); }); };
  // What was sent may be on its way for a while; the sender's own progress does not look for it.
  const auto seen_by_a_look = [&] { return drive({&a}, [&] { return !b.backend->arm(); }); };
  constexpr int kAWhile = 10;  // ms
  constexpr int kPatienceMs = 30'000;
  ASSERT_TRUE(asleep());
  ASSERT_TRUE(to_b->send(bytes_of("not urgent"), {}, false).ok());
  EXPECT_FALSE(readable(b, kAWhile));
  EXPECT_TRUE(seen_by_a_look());
  ASSERT_TRUE(asleep());
  EXPECT_EQ(b.events.messages.size(), 1U);
  ASSERT_TRUE(to_b->send(bytes_of("urgent"), {}, true).ok());
  EXPECT_TRUE(readable(b, kPatienceMs));
  ASSERT_TRUE(drive({&a, &b}, [&] { return b.events.messages.size() == 2; }));
  // Whoever wants everything arms anew: then it is told of what came before, and of what comes after.
  ASSERT_TRUE(asleep());
  ASSERT_TRUE(to_b->send(bytes_of("not urgent"), {}, false).ok());
  EXPECT_FALSE(readable(b, kAWhile));
  b.backend->want_everything(true);
  EXPECT_TRUE(seen_by_a_look());
  ASSERT_TRUE(asleep());
  ASSERT_TRUE(to_b->send(bytes_of("not urgent"), {}, false).ok());
  EXPECT_TRUE(readable(b, kPatienceMs));
  b.backend->want_everything(false);
  ASSERT_TRUE(asleep());
  // Many that are not urgent wake it before there is no room for more.
  Posted posted = Posted::completed;
  while (posted == Posted::completed && !readable(b, 0)) posted = *to_b->send(Bytes(64), {}, false);
  EXPECT_TRUE(readable(b, kPatienceMs));
}

INSTANTIATE_TEST_SUITE_P(Backends, Contract, ::testing::ValuesIn(subjects()), name_of);

}  // namespace
}  // namespace stagewire::conformance
