// Many links, several threads, wake-ups.
#include <poll.h>

#include <atomic>
#include <thread>

#include "fake_verbs/fixture.hpp"

namespace stagewire::fake_verbs {
namespace {

bool readable(const Backend& backend, int patience_ms) {
  pollfd watched{backend.wait_fd(), POLLIN, 0};
  return ::poll(&watched, 1, patience_ms) == 1;
}

TEST_F(FakeVerbs, many_links_work_at_once) {
  make_sides();
  constexpr std::size_t kLinks = 40;
  constexpr std::size_t kSize = 64 * 1024;
  const Memory here(kLinks * kSize);
  const Memory there(kLinks * kSize);
  there.fill(5);
  const auto local = a_->add(here.region());
  const auto remote = b_->add(there.region(), Access::remote_read);
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  for (std::size_t i = 0; i < kLinks; ++i) endpoints.push_back(a_->connect(*b_));
  std::vector<std::unique_ptr<RemoteRegion>> imports;
  for (const auto& endpoint : endpoints) {
    ASSERT_TRUE(until([&] { return endpoint->status().has_value(); }));
    ASSERT_TRUE(endpoint->status()->ok()) << endpoint->status()->error().to_string();
    imports.push_back(import(*endpoint, *remote));
  }
  for (std::size_t i = 0; i < kLinks; ++i) {
    const Segment part[] = {{i * kSize, i * kSize, kSize}};
    const auto posted = endpoints[i]->post(request_of(i, Operation::read, *local, *imports[i], part));
    ASSERT_TRUE(posted.ok());
    ASSERT_EQ(*posted, Posted::pending);
  }
  ASSERT_TRUE(wait_for(kLinks));
  EXPECT_EQ(here.differs(5, 0, kLinks * kSize), kLinks * kSize);
  endpoints.clear();
  ASSERT_TRUE(until([&] { return b_->events.lost.size() == kLinks; }));
}

// No room in the device's completion queue for one more link: its endpoint ends with a reason, the others
// stay.
TEST_F(FakeVerbs, R15_links_beyond_the_completion_queue_are_refused_with_the_numbers) {
  Limits limits;
  limits.completion_entries = 1000;
  control().set_limits(limits);
  make_sides({{"rdma_recovery_timeout_ms", "500"}});
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  for (int i = 0; i < 4; ++i) {
    endpoints.push_back(a_->connect(*b_));
    ASSERT_TRUE(until([&] { return endpoints.back()->status().has_value(); }));
    if (!endpoints.back()->status()->ok()) break;
  }
  ASSERT_FALSE(endpoints.back()->status()->ok());
  ASSERT_GT(endpoints.size(), 1U);
  EXPECT_NE(endpoints.back()->status()->error().message().find("1000 entries"), std::string::npos)
      << endpoints.back()->status()->error().message();
  EXPECT_TRUE(endpoints.front()->status()->ok());
  endpoints.clear();
}

// Who posts need not be who sleeps: the sleeper has to learn that there is something to wait for.
TEST_F(FakeVerbs, R22_a_request_wakes_whoever_sleeps_already) {
  connect();
  const Memory here(4096);
  const Memory there(4096);
  const auto local = a_->add(here.region());
  const auto remote = b_->add(there.region(), Access::remote_read);
  const auto imported = import(*remote);
  ASSERT_TRUE(until([&] { return a_->backend->arm() && !readable(*a_->backend, 0); }));
  const Segment whole[] = {{0, 0, 4096}};
  ASSERT_TRUE(to_b_->post(request_of(1, Operation::read, *local, *imported, whole)).ok());
  EXPECT_TRUE(readable(*a_->backend, 0)) << "nobody would look for the completion";
  ASSERT_TRUE(wait_for(1));
}

// Two post at once while a third sleeps and makes progress.
TEST_F(FakeVerbs, R22_two_threads_post_while_a_third_makes_progress) {
  connect({{"qp_per_transfer", "2"}});
  constexpr std::uint64_t kEach = 300;
  constexpr std::size_t kSize = 8192;
  const Memory here(2 * kSize);
  const Memory there(2 * kSize);
  there.fill(6);
  const auto local = a_->add(here.region());
  const auto remote = b_->add(there.region(), Access::remote_read_write);
  const auto imported = import(*remote);
  std::atomic<bool> stop{false};
  std::atomic<std::size_t> completed{0};
  std::thread progress([&] {
    while (!stop.load()) {
      const std::size_t events =
          a_->backend->progress(a_->events, false) + b_->backend->progress(b_->events, false);
      completed.store(a_->events.completions.size());
      if (events > 0) continue;
      const bool idle = a_->backend->arm() && b_->backend->arm();
      pollfd watched[] = {{a_->backend->wait_fd(), POLLIN, 0}, {b_->backend->wait_fd(), POLLIN, 0}};
      if (idle) ::poll(watched, 2, 1000);
    }
  });
  const auto poster = [&](std::uint64_t which) {
    const Segment part[] = {{which * kSize, which * kSize, kSize}};
    for (std::uint64_t i = 0; i < kEach;) {
      auto request = request_of(which * kEach + i, which == 0 ? Operation::read : Operation::write, *local,
                                *imported, part);
      if (which == 1) request.notification = static_cast<std::uint32_t>(i);
      const auto posted = to_b_->post(request);
      ASSERT_TRUE(posted.ok()) << posted.error().to_string();
      if (*posted == Posted::full) {
        std::this_thread::yield();
        continue;
      }
      const std::byte message[] = {static_cast<std::byte>(which), static_cast<std::byte>(i)};
      while (*to_b_->send(message, {}, false) == Posted::full) std::this_thread::yield();
      ++i;
    }
  };
  std::thread first(poster, 0);
  std::thread second(poster, 1);
  first.join();
  second.join();
  const auto deadline = std::chrono::steady_clock::now() + conformance::kPatience;
  while (completed.load() < 2 * kEach && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  stop.store(true);
  progress.join();
  ASSERT_EQ(a_->events.completions.size(), 2 * kEach);
  for (const Completion& completion : a_->events.completions) {
    EXPECT_TRUE(completion.status.ok()) << completion.status.error().to_string();
  }
  ASSERT_TRUE(until(
      [&] { return b_->events.notifications.size() == kEach && b_->events.messages.size() == 2 * kEach; }));
  EXPECT_EQ(here.differs(6, 0, kSize), kSize);
}

}  // namespace
}  // namespace stagewire::fake_verbs
