#include "backends/fault/hold_queue.hpp"

#include <algorithm>
#include <vector>

namespace stagewire::backends::fault {
namespace {

// How long an event waits to be overtaken when nothing follows.
constexpr base::Duration kOvertakenAtMost = std::chrono::milliseconds(1);

}  // namespace

void HoldQueue::push(HeldEvent event, bool overtaken) {
  const std::lock_guard lock(mutex_);
  size_.fetch_add(1, std::memory_order_release);
  if (overtaken && !overtaken_) {
    event.due += kOvertakenAtMost;
    overtaken_ = std::move(event);
    return;
  }
  events_.push_back(std::move(event));
  if (overtaken_) {
    overtaken_->due = events_.back().due;  // no longer than the one that it waited for
    events_.push_back(std::move(*overtaken_));
    overtaken_.reset();
  }
}

std::size_t HoldQueue::deliver(EventSink& sink, const Choice& chosen, bool with_overtaken) {
  std::vector<HeldEvent> now;
  {
    const std::lock_guard lock(mutex_);
    const auto rest = std::stable_partition(events_.begin(), events_.end(), chosen);
    now.assign(std::make_move_iterator(events_.begin()), std::make_move_iterator(rest));
    events_.erase(events_.begin(), rest);
    if (with_overtaken && overtaken_ && chosen(*overtaken_)) {
      now.push_back(std::move(*overtaken_));
      overtaken_.reset();
    }
    size_.fetch_sub(now.size());
  }
  for (const HeldEvent& event : now) event.deliver(sink);
  return now.size();
}

std::size_t HoldQueue::deliver_due(EventSink& sink, base::TimePoint now, bool more_may_follow) {
  const auto due = [&](const HeldEvent& event) { return event.due <= now; };
  return deliver(sink, due, !more_may_follow);
}

void HoldQueue::deliver_all_of(EventSink& sink, EventSink::PeerToken peer) {
  const auto of_peer = [&](const HeldEvent& event) { return event.peer == peer; };
  deliver(sink, of_peer, true);
}

std::optional<base::TimePoint> HoldQueue::next_due() {
  const std::lock_guard lock(mutex_);
  std::optional<base::TimePoint> next;
  if (overtaken_) next = overtaken_->due;
  for (const HeldEvent& event : events_) next = next ? std::min(*next, event.due) : event.due;
  return next;
}

}  // namespace stagewire::backends::fault
