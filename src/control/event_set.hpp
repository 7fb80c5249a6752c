// What the control plane waits for: descriptors, tags that are due without one, and a timer, all behind one
// epoll descriptor.
//
// Threads: one at a time; fd() alone may be called, and polled, from any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.hpp"
#include "base/unique_fd.hpp"
#include "stagewire/result.hpp"

namespace stagewire::control {

class EventSet {
 public:
  /// Whom an event is for; the user's own numbers, below kTimer - 1.
  using Tag = std::uint64_t;
  static constexpr Tag kTimer = UINT64_MAX;

  /// Once, before anything else.
  Status open();

  /// Readable, level-triggered, while take_ready() has something to return.
  int fd() const { return epoll_.get(); }

  /// `fd` stays its owner's, who takes it out with unwatch() before it is closed.
  void watch(int fd, Tag tag);
  void unwatch(int fd);

  /// The next take_ready() returns `tag`, whatever its descriptors say.
  void make_due(Tag tag);

  /// From `when` on, take_ready() returns kTimer; an earlier time that was asked for stays. It rings once:
  /// then timer_rang() is true, and whoever waits for a later time asks again.
  void wake_at(base::TimePoint when);
  bool timer_rang();

  /// Tags with input or due, each once, those that are due first.
  std::vector<Tag> take_ready();

 private:
  base::UniqueFd epoll_;
  base::UniqueFd attention_;  // an eventfd, readable while due_ is not empty
  base::UniqueFd timer_;
  base::TimePoint timer_at_ = base::TimePoint::max();
  std::vector<Tag> due_;
};

}  // namespace stagewire::control
