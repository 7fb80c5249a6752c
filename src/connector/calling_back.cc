// Asynchronous gets: what they wait for, or the end of their time, is called back without a lock, by the
// thread that waits for it if there is one in wait_and_call_back(), else by the progress thread.
#include "connector/subscriptions.hpp"

namespace stagewire::connector {

void Subscriptions::get_async(std::string_view key, const engine::DialPtr& dial,
                              std::optional<std::uint64_t> size, base::Deadline deadline, Callback callback) {
  const std::lock_guard lock(mutex_);
  if (closed_) {
    core_->run_on_loop([callback] { callback(Error(ErrorCode::closed, "the connector was closed")); });
    return;
  }
  const WantedPtr wanted = want(key, dial, Need::wait);
  if (wanted->state == State::failed) {
    core_->run_on_loop([callback = std::move(callback), error = take_error(*wanted)] { callback(error); });
    return;
  }
  if (wanted->callback) {
    core_->run_on_loop([callback, name = wanted->key] {
      callback(base::error(ErrorCode::conflict, "another asynchronous get waits for ", name));
    });
    return;
  }
  wanted->callback = std::move(callback);
  wanted->size = size;
  wanted->deadline = deadline;
  if (wanted->state == State::ready) return call_back(wanted);
  look_at(deadline);
}

// With mutex_ held: it is ready.
void Subscriptions::call_back(const WantedPtr& wanted) {
  if (Status same = check_size(*wanted, wanted->size); !same) {
    core_->run_on_loop([callback = std::move(wanted->callback), error = same.error()] { callback(error); });
    wanted->callback = nullptr;
    return;
  }
  due_.push_back(wanted);
  wanted_.erase(wanted->key);
  core_->callbacks_are_due();
}

void Subscriptions::run_callbacks() {
  while (true) {
    Callback callback;
    base::Deadline deadline = base::Deadline::never();
    std::optional<Taken> taken;
    std::optional<Delivery> delivery;
    {
      const std::lock_guard lock(mutex_);
      if (called_back_ == due_.size()) {
        due_.clear();
        called_back_ = 0;
        return;
      }
      WantedPtr wanted = std::move(due_[called_back_++]);
      callback = std::move(wanted->callback);
      deadline = wanted->deadline;
      if (wanted->is_eager()) {
        delivery = take_eager(*wanted);
        forget(wanted);
      } else {
        taken = move_out(*wanted);
      }
    }
    if (delivery) {
      callback(std::move(*delivery));
    } else {
      receive_async(std::move(*taken), deadline, std::move(callback));
    }
  }
}

// With mutex_ held. One timer for all gets, which is set anew when it has fired: gets that end before their
// time, as most do, need not touch it.
void Subscriptions::look_at(base::Deadline deadline) {
  if (deadline.when() >= next_look_.when()) return;
  core_->cancel_timer(look_timer_);
  next_look_ = deadline;
  look_timer_ = core_->add_timer(deadline, [this] { check_deadlines(); });
}

void Subscriptions::check_deadlines() {
  std::vector<std::pair<Callback, Error>> ended;
  {
    const std::lock_guard lock(mutex_);
    next_look_ = base::Deadline::never();
    base::Deadline next = next_look_;
    const base::TimePoint now = core_->clock().now();
    for (const auto& entry : wanted_) {
      Wanted& wanted = *entry.second;
      if (!wanted.callback || wanted.state != State::waiting) continue;
      if (wanted.deadline.passed(now)) {
        ++counters_.timeouts;
        ended.emplace_back(std::exchange(wanted.callback, nullptr), waited_in_vain(wanted));
      } else if (wanted.deadline.when() < next.when()) {
        next = wanted.deadline;
      }
    }
    look_at(next);
  }
  for (const auto& [callback, error] : ended) callback(error);
}

}  // namespace stagewire::connector
