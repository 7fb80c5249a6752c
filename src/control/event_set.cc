#include "control/event_set.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/check.hpp"
#include "base/text.hpp"

namespace stagewire::control {
namespace {

constexpr EventSet::Tag kAttention = EventSet::kTimer - 1;

}  // namespace

Status EventSet::open() {
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  attention_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  timer_.reset(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!epoll_ || !attention_ || !timer_)
    return base::system_error("opening the control plane's wait set", errno);
  watch(attention_.get(), kAttention);
  watch(timer_.get(), kTimer);
  return {};
}

void EventSet::watch(int fd, Tag tag) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = tag;
  STAGEWIRE_CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0,
                  "a descriptor of ours cannot be watched");
}

void EventSet::unwatch(int fd) {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

void EventSet::make_due(Tag tag) {
  if (std::find(due_.begin(), due_.end(), tag) != due_.end()) return;
  if (due_.empty()) eventfd_write(attention_.get(), 1);
  due_.push_back(tag);
}

void EventSet::wake_at(base::TimePoint when) {
  if (when >= timer_at_) return;
  timer_at_ = when;
  const auto seconds = std::chrono::floor<std::chrono::seconds>(when.time_since_epoch());
  itimerspec spec{};
  spec.it_value.tv_sec = seconds.count();
  spec.it_value.tv_nsec = (when.time_since_epoch() - seconds).count();
  timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &spec, nullptr);
}

bool EventSet::timer_rang() {
  std::uint64_t ignored = 0;
  if (read(timer_.get(), &ignored, sizeof ignored) < 0) return false;
  timer_at_ = base::TimePoint::max();
  return true;
}

std::vector<EventSet::Tag> EventSet::take_ready() {
  std::vector<Tag> ready = std::exchange(due_, {});
  if (!ready.empty()) {
    eventfd_t ignored = 0;
    eventfd_read(attention_.get(), &ignored);
  }
  std::array<epoll_event, 64> events{};
  const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const Tag tag = events[static_cast<std::size_t>(i)].data.u64;
    if (std::find(ready.begin(), ready.end(), tag) == ready.end()) ready.push_back(tag);
  }
  return ready;
}

}  // namespace stagewire::control
