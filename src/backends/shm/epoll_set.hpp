// Everything that a backend waits for, behind one descriptor. Edge-triggered: an event is reported once, and
// whoever handles it goes on until there is nothing left; a doorbell need never be read.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <span>

#include "base/unique_fd.hpp"
#include "stagewire/result.hpp"

namespace stagewire::backends::shm {

enum class Source : std::uint32_t { own_wake, listener, inbox_socket, inbox_doorbell, outbox_socket };

struct Event {
  Source source = Source::own_wake;
  std::uint32_t id = 0;  ///< of the inbox or outbox
};

class EpollSet {
 public:
  Status open();
  int fd() const { return fd_.get(); }

  Status add(int fd, Event event);
  /// Reports also when the socket takes data again, or no longer.
  void watch_writable(int fd, Event event, bool on);
  /// Before the descriptor is closed: a copy of it in another process would keep it here.
  void remove(int fd);
  /// What has happened, without waiting. Fills a part of `events`.
  std::span<const Event> take(std::span<Event> events);

 private:
  base::UniqueFd fd_;
};

}  // namespace stagewire::backends::shm
