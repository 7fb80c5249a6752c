// What every backend must do, both ends in one process.

#include "conformance/side.hpp"

namespace stagewire::conformance {
namespace {

class Contract : public ::testing::TestWithParam<Subject> {
 protected:
  static BackendOptions small() {
    BackendOptions options;
    options.message_ring_size = 4096;
    options.payload_slots = 4;
    options.payload_slot_size = 1024;
    return options;
  }

  void connect() {
    to_b = a.connect(b);
    ASSERT_TRUE(drive({&a, &b}, [&] { return to_b->status().has_value() && b.events.arrived.size() == 1; }));
    ASSERT_TRUE(to_b->status()->ok()) << to_b->status()->error().to_string();
  }

  /// Sends, making progress while there is no room.
  void send(std::string_view text, const PayloadSlot& slot = {}) {
    Posted posted = Posted::full;
    ASSERT_TRUE(drive({&a, &b}, [&] {
      const auto sent = to_b->send(bytes_of(text), slot, true);
      EXPECT_TRUE(sent.ok());
      posted = sent ? *sent : Posted::completed;
      return posted == Posted::completed;
    }));
  }

  std::unique_ptr<RemoteRegion> import(const Registration& registration) {
    auto region = to_b->import(registration.remote_key());
    EXPECT_TRUE(region.ok()) << region.error().to_string();
    if (!region) return nullptr;
    EXPECT_TRUE(drive({&a, &b}, [&] { return (*region)->status().has_value(); }));
    return std::move(*region);
  }

  /// Posts and drives both ends until it has ended.
  Status run(WorkRequest request) {
    request.id = ++next_id;
    Posted posted = Posted::full;
    std::optional<Error> refused;
    EXPECT_TRUE(drive({&a, &b}, [&] {
      const auto result = to_b->post(request);
      if (!result) refused = result.error();
      posted = result ? *result : Posted::completed;
      return posted != Posted::full;
    }));
    if (refused) return *refused;
    if (posted == Posted::completed) return {};
    const std::size_t before = a.events.completions.size();
    EXPECT_TRUE(drive({&a, &b}, [&] { return a.events.completions.size() > before; }));
    EXPECT_EQ(a.events.completions.back().id, request.id);
    return a.events.completions.back().status;
  }

  Side a{GetParam(), small()};
  Side b{GetParam(), small()};
  std::unique_ptr<Endpoint> to_b;
  std::uint64_t next_id = 0;
};

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

TEST_P(Contract, reads_and_writes_what_was_asked_for) {
  connect();
  const Memory here(1 << 16);
  const Memory there(1 << 16);
  here.fill(1);
  there.fill(2);
  const auto local = a.add(here.region());
  const auto remote = b.add(there.region(), Access::remote_read_write);
  const auto imported = import(*remote);
  ASSERT_TRUE(imported && imported->status()->ok());
  const std::vector<Segment> read = {{100, 200, 300}, {5000, 0, 1}, {0, 0, 0}};
  WorkRequest request;
  request.local = local.get();
  request.remote = imported.get();
  request.segments = read;
  ASSERT_TRUE(run(request).ok());
  for (std::size_t i = 0; i < here.bytes().size(); ++i) {
    const bool first = i >= 100 && i < 400;
    const std::byte wanted = first       ? Memory::pattern(2, i + 100)
                             : i == 5000 ? Memory::pattern(2, 0)
                                         : Memory::pattern(1, i);
    ASSERT_EQ(here.bytes()[i], wanted) << "at " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Contract,
                         ::testing::Values(Subject{"local", "local", "", false},
                                           Subject{"shm", "shm", "", true}),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace stagewire::conformance
