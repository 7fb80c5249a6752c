#include "pipeline/stage_control.hpp"

#include <poll.h>

#include <utility>

#include "base/text.hpp"

namespace stagewire::pipeline {

StageControl::StageControl(ControlChannel channel) : channel_(std::move(channel)) {
  thread_ = std::thread([this] { listen(); });
}

StageControl::~StageControl() {
  channel_.stop_receiving();
  thread_.join();
}

void StageControl::listen() {
  for (bool more = true; more;) {
    pollfd waiting{channel_.fd(), POLLIN, 0};
    if (::poll(&waiting, 1, -1) > 0) more = take(channel_.receive());
  }
  const std::lock_guard lock(mutex_);
  stop_ = true;
  changed_.notify_all();
  if (order_callback_) order_callback_();
  if (callback_) callback_();
}

bool StageControl::take(Result<std::optional<Message>> message) {
  if (!message.ok()) return false;
  if (!message->has_value()) return true;
  const std::lock_guard lock(mutex_);
  if (auto* assignment = std::get_if<Assignment>(&**message)) {
    assignment_ = std::move(*assignment);
  } else if (auto* start = std::get_if<Start>(&**message)) {
    start_ = std::move(*start);
  } else if (std::holds_alternative<Finish>(**message)) {
    finish_ = Finish{};
  } else if (auto* admit = std::get_if<Admit>(&**message)) {
    take_order(*admit);
  } else if (auto* give_up = std::get_if<GiveUp>(&**message)) {
    take_order(std::move(*give_up));
  } else {
    return false;
  }
  changed_.notify_all();
  return true;
}

void StageControl::take_order(Order order) {
  orders_.push_back(std::move(order));
  if (order_callback_) order_callback_();
}

Result<std::vector<Order>> StageControl::take_orders() {
  const std::lock_guard lock(mutex_);
  if (stop_) return stopped();
  return std::exchange(orders_, {});
}

void StageControl::on_order(std::function<void()> callback) {
  const std::lock_guard lock(mutex_);
  order_callback_ = std::move(callback);
  if ((stop_ || !orders_.empty()) && order_callback_) order_callback_();
}

Error StageControl::stopped() const {
  return base::error(ErrorCode::cancelled, "the pipeline was stopped");
}

template <typename T>
Result<T> StageControl::wait_for(std::optional<T>& value) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return value.has_value() || stop_; });
  if (!value) return stopped();
  return *value;
}

Result<Assignment> StageControl::wait_for_assignment() {
  return wait_for(assignment_);
}

Result<Start> StageControl::wait_for_start() {
  return wait_for(start_);
}

Status StageControl::wait_for_finish() {
  const auto finish = wait_for(finish_);
  return finish.ok() ? Status() : finish.error();
}

Status StageControl::wait_until(base::TimePoint time) {
  std::unique_lock lock(mutex_);
  if (changed_.wait_until(lock, time, [this] { return stop_; })) return stopped();
  return {};
}

void StageControl::wait_for_stop(base::Duration limit) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limit, [this] { return stop_; });
}

void StageControl::on_stop(std::function<void()> callback) {
  const std::lock_guard lock(mutex_);
  callback_ = std::move(callback);
  if (stop_ && callback_) callback_();
}

}  // namespace stagewire::pipeline
