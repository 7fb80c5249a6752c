// Time: a monotonic clock that can be passed in, and deadlines on it.
#pragma once

#include <chrono>

namespace stagewire::base {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

/// Where time comes from. Tests pass a ManualClock; everything that decides by time asks its clock.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
};

/// CLOCK_MONOTONIC, the same for all processes of a host.
class SteadyClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
};

/// The process's steady clock; lives for ever.
const Clock& steady_clock();

class ManualClock final : public Clock {
 public:
  TimePoint now() const override { return now_; }
  void advance(Duration by) { now_ += by; }

 private:
  TimePoint now_{Duration(std::chrono::seconds(1000))};
};

/// A point in time by which something must have ended.
class Deadline {
 public:
  /// Durations too long for the clock become "never".
  template <typename Rep, typename Period>
  static Deadline after(std::chrono::duration<Rep, Period> timeout, const Clock& clock = steady_clock()) {
    using Given = std::chrono::duration<Rep, Period>;
    const TimePoint now = clock.now();
    const bool too_long = timeout >= std::chrono::floor<Given>(TimePoint::max() - now);
    return too_long ? never() : Deadline(now + std::chrono::duration_cast<Duration>(timeout));
  }
  static Deadline at(TimePoint when) { return Deadline(when); }
  static Deadline never() { return Deadline(TimePoint::max()); }

  TimePoint when() const { return when_; }
  bool is_never() const { return when_ == TimePoint::max(); }
  bool passed(TimePoint now) const { return now >= when_; }
  /// Time that is left, not below zero.
  Duration left(TimePoint now) const { return now >= when_ ? Duration::zero() : when_ - now; }

 private:
  explicit Deadline(TimePoint when) : when_(when) {}
  TimePoint when_;
};

}  // namespace stagewire::base
