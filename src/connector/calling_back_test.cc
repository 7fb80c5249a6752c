// Where asynchronous gets are called back, and when their time is over.
#include "base/event.hpp"
#include "connector/connector_fixture.hpp"

namespace stagewire::connector {
namespace {

using namespace stagewire::testing_support;

Status get_async(Connector& connector, const std::string& key, ms timeout,
                 std::function<void(Result<Delivery>)> callback) {
  return connector.get_async("0", "1", key, {.timeout = timeout, .metadata = {}}, std::move(callback));
}

// It may come before the thread waits, and then another one calls back: but not each time.
TEST(CallingBack, a_thread_that_waits_for_it_is_called_back_itself) {
  for (const WaitStrategy strategy : {WaitStrategy::block, WaitStrategy::spin, WaitStrategy::adaptive}) {
    ConnectorPair pair({.wait = strategy});
    ASSERT_TRUE(pair.meet());
    const auto bytes = pattern(1000, 1);
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    bool here = false;
    for (int i = 0; !here && std::chrono::steady_clock::now() < give_up; ++i) {
      const std::string key = std::to_string(i);
      base::Event done;
      std::thread::id thread;
      ASSERT_TRUE(get_async(*pair.receiver, key, ms(20'000), [&](const Result<Delivery>& result) {
                    EXPECT_TRUE(result.ok());
                    thread = std::this_thread::get_id();
                    done.set();
                  }).ok());
      std::thread putting(
          [&] { EXPECT_TRUE(pair.sender->put("0", "1", key, std::span<const std::byte>(bytes), {}).ok()); });
      EXPECT_TRUE(pair.receiver->wait(done, ms(20'000)));
      putting.join();
      here = thread == std::this_thread::get_id();
    }
    EXPECT_TRUE(here);
  }
}

TEST(CallingBack, nobody_need_wait_in_particular) {
  ConnectorPair pair({});
  ASSERT_TRUE(pair.meet());
  auto other = std::async(std::launch::async, [&] {
    return pair.receiver->get("0", "1", "other", {.timeout = ms(20'000), .metadata = {}}).ok();
  });
  base::Event never;
  auto waiting = std::async(std::launch::async, [&] { return pair.receiver->wait(never, ms(20'000)); });
  const auto bytes = pattern(1000, 1);
  for (int i = 0; i < 100; ++i) {
    std::promise<bool> got;
    ASSERT_TRUE(get_async(*pair.receiver, std::to_string(i), ms(20'000), [&](const Result<Delivery>& result) {
                  got.set_value(result.ok());
                }).ok());
    ASSERT_TRUE(pair.sender->put("0", "1", std::to_string(i), std::span<const std::byte>(bytes), {}).ok());
    EXPECT_TRUE(got.get_future().get());
  }
  ASSERT_TRUE(pair.sender->put("0", "1", "other", std::span<const std::byte>(bytes), {}).ok());
  EXPECT_TRUE(other.get());
  never.set();
  EXPECT_TRUE(waiting.get());
}

TEST(CallingBack, each_get_ends_at_a_time_of_its_own) {
  ConnectorPair pair({});
  ASSERT_TRUE(pair.meet());
  std::mutex mutex;
  std::vector<std::string> ended;
  std::promise<void> all;
  for (const auto& [key, timeout] : {std::pair("late", ms(300)), std::pair("early", ms(20)),
                                     std::pair("between", ms(150)), std::pair("taken", ms(100))}) {
    ASSERT_TRUE(get_async(*pair.receiver, key, timeout, [&, name = std::string(key)](const auto& result) {
                  const std::lock_guard lock(mutex);
                  ended.push_back(result ? name + " came" : name);
                  EXPECT_TRUE(result || result.error().code() == ErrorCode::timeout);
                  if (name == "late") all.set_value();
                }).ok());
  }
  std::atomic<bool> called{false};
  ASSERT_TRUE(
      get_async(*pair.receiver, "never", Milliseconds::max(), [&](const auto&) { called = true; }).ok());
  const auto bytes = pattern(1000, 1);
  ASSERT_TRUE(pair.sender->put("0", "1", "taken", std::span<const std::byte>(bytes), {}).ok());
  all.get_future().wait();
  EXPECT_FALSE(called);
  const std::lock_guard lock(mutex);
  // What is put in time comes first, unless this machine stood still for long.
  std::erase_if(ended, [](const std::string& name) { return name.starts_with("taken"); });
  EXPECT_EQ(ended, (std::vector<std::string>{"early", "between", "late"}));
}

}  // namespace
}  // namespace stagewire::connector
