#include "base/event.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <array>
#include <thread>

#include "base/unique_fd.hpp"

namespace stagewire::base {
namespace {

using std::chrono::milliseconds;

TEST(Event, is_set_once_and_stays_set) {
  Event event;
  EXPECT_FALSE(event.is_set());
  event.set();
  event.set();
  EXPECT_TRUE(event.is_set());
  EXPECT_TRUE(event.wait(Deadline::after(milliseconds(0))));
}

TEST(Event, R05_a_wait_ends_at_its_deadline) {
  Event event;
  const TimePoint start = steady_clock().now();
  EXPECT_FALSE(event.wait(Deadline::after(milliseconds(20))));
  EXPECT_GE(steady_clock().now() - start, milliseconds(20));
  event.set();
  EXPECT_TRUE(event.wait(Deadline::after(milliseconds(0))));
}

TEST(Event, wakes_a_sleeping_thread) {
  for (int round = 0; round < 1000; ++round) {
    std::array<Event, 2> events;
    std::thread other([&] {
      EXPECT_TRUE(events[0].wait(Deadline::never()));
      events[1].set();
    });
    events[0].set();
    EXPECT_TRUE(events[1].wait(Deadline::never()));
    other.join();
  }
}

TEST(Event, wakes_a_thread_that_polls_descriptors) {
  const UniqueFd fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  for (int round = 0; round < 1000; ++round) {
    Event event;
    std::thread other([&] { event.set(); });
    while (event.begin_polling(fd.get())) {
      pollfd poller{fd.get(), POLLIN, 0};
      ASSERT_EQ(poll(&poller, 1, -1), 1);
      drain_eventfd(fd.get());
      event.end_polling();
    }
    EXPECT_TRUE(event.is_set());
    other.join();
    drain_eventfd(fd.get());
  }
}

TEST(Event, polling_that_ended_is_not_woken) {
  const UniqueFd fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  Event event;
  ASSERT_TRUE(event.begin_polling(fd.get()));
  event.end_polling();
  event.set();
  pollfd poller{fd.get(), POLLIN, 0};
  EXPECT_EQ(poll(&poller, 1, 0), 0);
  EXPECT_FALSE(event.begin_polling(fd.get()));
}

TEST(Deadline, durations_beyond_the_clock_mean_never) {
  EXPECT_TRUE(Deadline::after(Duration::max()).is_never());
  EXPECT_TRUE(Deadline::after(milliseconds::max()).is_never());
  EXPECT_TRUE(Deadline::after(std::chrono::hours::max()).is_never());
  ManualClock clock;
  const Deadline deadline = Deadline::after(milliseconds(5), clock);
  EXPECT_EQ(deadline.left(clock.now()), milliseconds(5));
  clock.advance(milliseconds(6));
  EXPECT_TRUE(deadline.passed(clock.now()));
  EXPECT_EQ(deadline.left(clock.now()), Duration::zero());
}

}  // namespace
}  // namespace stagewire::base
