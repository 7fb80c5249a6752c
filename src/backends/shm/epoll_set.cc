#include "backends/shm/epoll_set.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/text.hpp"

namespace stagewire::backends::shm {
namespace {

epoll_event to_system(Event event, bool writable) {
  epoll_event result{};
  result.events = EPOLLIN | EPOLLRDHUP | EPOLLET | (writable ? EPOLLOUT : 0U);
  result.data.u64 = (std::uint64_t{static_cast<std::uint32_t>(event.source)} << 32) | event.id;
  return result;
}

}  // namespace

Status EpollSet::open() {
  fd_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!fd_) return base::system_error("epoll_create1", errno);
  return {};
}

Status EpollSet::add(int fd, Event event) {
  epoll_event system = to_system(event, false);
  if (::epoll_ctl(fd_.get(), EPOLL_CTL_ADD, fd, &system) != 0)
    return base::system_error("epoll_ctl(ADD)", errno);
  return {};
}

void EpollSet::watch_writable(int fd, Event event, bool on) {
  epoll_event system = to_system(event, on);
  ::epoll_ctl(fd_.get(), EPOLL_CTL_MOD, fd, &system);
}

void EpollSet::remove(int fd) {
  ::epoll_ctl(fd_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

std::span<const Event> EpollSet::take(std::span<Event> events) {
  std::array<epoll_event, 64> system;
  const int room = static_cast<int>(std::min(events.size(), system.size()));
  const int count = ::epoll_wait(fd_.get(), system.data(), room, 0);
  if (count <= 0) return {};
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const std::uint64_t data = system[i].data.u64;
    events[i] = {static_cast<Source>(data >> 32), static_cast<std::uint32_t>(data)};
  }
  return events.first(static_cast<std::size_t>(count));
}

}  // namespace stagewire::backends::shm
