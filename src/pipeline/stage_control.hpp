// A stage process's ear: listens to the pipeline while the stage works.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <variant>
#include <vector>

#include "base/clock.hpp"
#include "pipeline/control_channel.hpp"

namespace stagewire::pipeline {

/// What a replay's stage is told while it runs.
using Order = std::variant<Admit, GiveUp>;

/// Every function may be called from any thread. A channel that ends, or says what cannot be understood,
/// means stop.
class StageControl {
 public:
  explicit StageControl(ControlChannel channel);
  StageControl(const StageControl&) = delete;
  StageControl& operator=(const StageControl&) = delete;
  ~StageControl();

  Status send(const Message& message) const { return channel_.send(message, /*wait=*/true); }

  /// Block until it has come; `cancelled` when the pipeline stops first.
  Result<Assignment> wait_for_assignment();
  Result<Start> wait_for_start();
  Status wait_for_finish();
  /// Waits for the time to come; `cancelled` as above.
  Status wait_until(base::TimePoint time);
  /// Blocks until the pipeline stops this stage, at most `limit`.
  void wait_for_stop(base::Duration limit);

  /// What has come since the last call; `cancelled` when the pipeline stops.
  Result<std::vector<Order>> take_orders();
  /// `callback` runs, on another thread, whenever take_orders() has something new. Must not block. An empty
  /// one takes the last one back: it is not running any more when this returns.
  void on_order(std::function<void()> callback);

  /// `callback` runs once, on another thread, when the pipeline stops this stage; or here and now when it has
  /// already. Must not block. An empty one takes the last one back: it is not running any more when this
  /// returns.
  void on_stop(std::function<void()> callback);

 private:
  void listen();
  bool take(Result<std::optional<Message>> message);  // false = the end
  void take_order(Order order);                       // with mutex_ held
  template <typename T>
  Result<T> wait_for(std::optional<T>& value);
  Error stopped() const;

  ControlChannel channel_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Assignment> assignment_;
  std::optional<Start> start_;
  std::optional<Finish> finish_;
  std::vector<Order> orders_;
  bool stop_ = false;
  std::function<void()> callback_;
  std::function<void()> order_callback_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace stagewire::pipeline
