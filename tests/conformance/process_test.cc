// What holds between two processes.
#include "conformance/child.hpp"
#include "conformance/contract.hpp"

namespace stagewire::conformance {
namespace {

class Processes : public ::testing::TestWithParam<Subject> {
 protected:
  static std::uint32_t number_in(const Recorder::Message& message) {
    std::uint32_t number = 0;
    std::memcpy(&number, message.bytes.data(), sizeof number);
    return number;
  }

  static bool send_number(Side& side, Endpoint& to, std::uint32_t number, bool urgent = true) {
    const auto bytes = std::as_bytes(std::span(&number, 1));
    Posted posted = Posted::full;
    return drive_blocking(side,
                          [&] {
                            const auto sent = to.send(bytes, {}, urgent);
                            if (!sent) return true;
                            posted = *sent;
                            return posted == Posted::completed;
                          }) &&
           posted == Posted::completed;
  }

  /// Sends each number back, one larger, until it is `last`.
  static int echo(const Subject& subject, Child::Line& line, std::uint32_t last) {
    Side side(subject);
    const auto to_parent = meet(side, line);
    if (!to_parent) return 2;
    for (;;) {
      if (!drive_blocking(side, [&] { return !side.events.messages.empty() || !side.events.lost.empty(); }))
        return 3;
      if (side.events.messages.empty()) return 0;
      const std::uint32_t number = number_in(side.events.messages.front());
      side.events.messages.clear();
      if (!send_number(side, *to_parent, number + 1)) return 0;
      if (number + 1 >= last) return 0;
    }
  }
};

// Each wake-up that gets lost would end this test by its patience.
TEST_P(Processes, R22_no_wake_up_is_missed) {
  // In a guest without hardware support everything takes ten times as long.
  const std::uint32_t kLast = GetParam().name.find("rdma") == std::string::npos ? kManyMessages : 2000;
  const Subject subject = GetParam();
  Child child([&](Child::Line& line) { return echo(subject, line, kLast); });
  Side side(subject);
  auto line = child.line();
  auto to_child = meet(side, line);
  ASSERT_TRUE(to_child);
  std::uint32_t number = 0;
  while (number < kLast) {
    ASSERT_TRUE(send_number(side, *to_child, number));
    ASSERT_TRUE(drive_blocking(side, [&] { return !side.events.messages.empty(); })) << "after " << number;
    ASSERT_EQ(number_in(side.events.messages.front()), number + 1);
    side.events.messages.clear();
    number += 2;
  }
  to_child.reset();
  EXPECT_EQ(child.wait(), 0);
}

TEST_P(Processes, R08_a_killed_peer_is_noticed_by_its_socket) {
  const Subject subject = GetParam();
  Child child([&](Child::Line& line) { return echo(subject, line, ~0U); });
  Side side(subject);
  auto line = child.line();
  const auto to_child = meet(side, line);
  ASSERT_TRUE(to_child);
  ASSERT_TRUE(send_number(side, *to_child, 1));
  ASSERT_TRUE(drive_blocking(side, [&] { return side.events.messages.size() == 1; }));
  child.signal(SIGKILL);
  ASSERT_TRUE(drive_blocking(side, [&] { return !side.events.lost.empty() && !to_child->status()->ok(); }));
  EXPECT_EQ(side.events.lost[0].reason.code(), ErrorCode::unavailable);
  EXPECT_EQ(to_child->status()->error().code(), ErrorCode::unavailable);
}

TEST_P(Processes, a_stopped_peer_loses_nothing) {
  const Subject subject = GetParam();
  constexpr std::uint32_t kCount = 20'000;
  Child child([&](Child::Line& line) {
    Side side(subject);
    const auto to_parent = meet(side, line);
    if (!to_parent) return 2;
    if (!drive_blocking(side, [&] { return side.events.messages.size() == kCount; })) return 3;
    for (std::uint32_t i = 0; i < kCount; ++i) {
      if (number_in(side.events.messages[i]) != i) return 4;
    }
    return send_number(side, *to_parent, kCount) ? 0 : 5;
  });
  Side side(subject);
  auto line = child.line();
  const auto to_child = meet(side, line);
  ASSERT_TRUE(to_child);
  child.signal(SIGSTOP);
  child.wait_stopped();
  std::uint32_t sent = 0;
  for (Posted posted = Posted::completed; sent < kCount; ++sent) {
    posted = *to_child->send(std::as_bytes(std::span(&sent, 1)), {}, true);
    if (posted == Posted::full) break;
  }
  ASSERT_LT(sent, kCount) << "the ring was to be filled";
  side.step();
  EXPECT_TRUE(side.events.lost.empty());
  EXPECT_TRUE(to_child->status()->ok());
  child.signal(SIGCONT);
  for (; sent < kCount; ++sent) ASSERT_TRUE(send_number(side, *to_child, sent, sent % 2 == 0));
  ASSERT_TRUE(drive_blocking(side, [&] { return side.events.messages.size() == 1; }));
  EXPECT_EQ(number_in(side.events.messages[0]), kCount);
  EXPECT_EQ(child.wait(), 0);
}

TEST_P(Processes, another_process_s_memory_is_read_and_written) {
  const Subject subject = GetParam();
  constexpr std::size_t kSize = 3 << 20;
  Child child([&](Child::Line& line) {
    const Memory memory(kSize);
    memory.fill(8);
    Side side(subject);
    const auto registered = side.add(memory.region(4096, kSize - 8192), Access::remote_read_write);
    const auto to_parent = meet(side, line);
    if (!to_parent) return 2;
    line.write(registered->remote_key());
    if (!drive_blocking(side, [&] { return side.events.notifications.size() == 1; })) return 3;
    constexpr std::size_t kEnd = kSize - 4096;
    const bool written = memory.differs(9, 4096, kEnd) == kEnd;
    const bool beside = memory.differs(8, 0, 4096) == 4096 && memory.differs(8, kEnd, kSize) == kSize;
    if (!written || !beside) return 4;
    return 0;
  });
  Side side(subject);
  auto line = child.line();
  const auto to_child = meet(side, line);
  ASSERT_TRUE(to_child);
  const auto imported = to_child->import(line.read());
  ASSERT_TRUE(imported.ok());
  ASSERT_TRUE(drive_blocking(side, [&] { return (*imported)->status().has_value(); }));
  ASSERT_TRUE((*imported)->status()->ok()) << (*imported)->status()->error().to_string();
  const Memory here(kSize);
  const auto local = side.add(here.region());
  const std::vector<Segment> whole = {{4096, 0, kSize - 8192}};
  WorkRequest request;
  request.local = local.get();
  request.remote = imported->get();
  request.segments = whole;
  request.id = 1;
  auto posted = to_child->post(request);
  ASSERT_TRUE(posted.ok());
  ASSERT_TRUE(drive_blocking(
      side, [&] { return *posted == Posted::completed || side.events.completions.size() == 1; }));
  ASSERT_EQ(here.differs(8, 4096, kSize - 4096), kSize - 4096);
  here.fill(9);
  request.operation = Operation::write;
  request.notification = 1;
  request.on_this_thread = true;
  const std::size_t before = side.events.completions.size();
  posted = to_child->post(request);
  ASSERT_TRUE(posted.ok());
  const bool maps = side.backend->capabilities().maps_remote;
  EXPECT_EQ(*posted, maps ? Posted::completed : Posted::pending);
  ASSERT_TRUE(drive_blocking(
      side, [&] { return *posted == Posted::completed || side.events.completions.size() > before; }));
  EXPECT_EQ(child.wait(), 0);
}

std::vector<Subject> between_processes() {
  std::vector<Subject> all = subjects();
  std::erase_if(all, [](const Subject& subject) { return !subject.processes; });
  return all;
}

INSTANTIATE_TEST_SUITE_P(Backends, Processes, ::testing::ValuesIn(between_processes()), name_of);

}  // namespace
}  // namespace stagewire::conformance
