#include "pipeline/stage_control.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>

namespace stagewire::pipeline {
namespace {

struct Ends {
  Ends() {
    auto pair = ControlChannel::create();
    EXPECT_TRUE(pair.ok()) << pair.error().to_string();
    pipeline = std::move(pair->first);
    stage = std::make_unique<StageControl>(ControlChannel(std::move(pair->second)));
  }
  ControlChannel pipeline;
  std::unique_ptr<StageControl> stage;
};

TEST(StageControl, orders_are_taken_in_their_order_and_once) {
  Ends ends;
  std::promise<void> both;
  std::atomic<int> count = 0;
  ends.stage->on_order([&] {
    if (++count == 2) both.set_value();
  });
  ASSERT_TRUE(ends.pipeline.send(Admit{3, 4}, true).ok());
  ASSERT_TRUE(ends.pipeline.send(GiveUp{3, "it failed"}, true).ok());
  both.get_future().wait();
  const auto orders = ends.stage->take_orders();
  ASSERT_TRUE(orders.ok());
  ASSERT_EQ(orders->size(), 2U);
  EXPECT_EQ(std::get<Admit>((*orders)[0]).count, 4U);
  EXPECT_EQ(std::get<GiveUp>((*orders)[1]).reason, "it failed");
  EXPECT_TRUE(ends.stage->take_orders()->empty());
}

TEST(StageControl, a_stop_wakes_who_waits_for_orders) {
  Ends ends;
  std::promise<void> woken;
  ends.stage->on_order([&] { woken.set_value(); });
  ASSERT_TRUE(ends.pipeline.send(Stop{}, true).ok());
  woken.get_future().wait();
  EXPECT_EQ(ends.stage->take_orders().error().code(), ErrorCode::cancelled);
}

TEST(StageControl, who_comes_late_is_told_at_once) {
  Ends ends;
  ASSERT_TRUE(ends.pipeline.send(Admit{0, 1}, true).ok());
  ASSERT_TRUE(ends.pipeline.send(Start{}, true).ok());
  ASSERT_TRUE(ends.stage->wait_for_start().ok()) << "by then the order is there, too";
  bool told = false;
  ends.stage->on_order([&] { told = true; });
  EXPECT_TRUE(told);
  ends.stage->on_order({});
}

}  // namespace
}  // namespace stagewire::pipeline
