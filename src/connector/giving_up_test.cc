// Keys that one side gives up: what the other hears, and what is left of them.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "connector/connector_fixture.hpp"

namespace stagewire::connector {
namespace {

using testing_support::ConnectorPair;
using testing_support::DeafReceiver;
using testing_support::ms;
using testing_support::pattern;

Status put(Connector& connector, std::string_view key, std::size_t size = 100) {
  const auto bytes = pattern(size, 1);
  const auto done = connector.put("0", "1", key, std::span<const std::byte>(bytes), {});
  return done ? Status() : Status(done.error());
}

Result<Delivery> get(Connector& connector, std::string_view key) {
  return connector.get("0", "1", key, {.timeout = ms(20'000), .metadata = {}});
}

struct Abandoned {
  std::string key;
  bool taken = false;
  ErrorCode code = ErrorCode::failed;
};

/// The next key that `sender` hears was given up.
std::future<Abandoned> listen(Connector& sender) {
  auto heard = std::make_shared<std::promise<Abandoned>>();
  auto once = std::make_shared<std::once_flag>();
  std::future<Abandoned> future = heard->get_future();
  sender.on_abandoned([heard, once](std::string_view key, bool taken, const Error& reason) {
    std::call_once(*once, [&] { heard->set_value({std::string(key), taken, reason.code()}); });
  });
  return future;
}

TEST(GivingUp, R07_the_sender_hears_of_a_key_that_its_receiver_abandons) {
  ConnectorPair pair({});
  ASSERT_TRUE(pair.meet());
  auto waited_for = listen(*pair.sender);
  ASSERT_TRUE(pair.receiver->watch("0", "1", "waited", {}).ok());
  pair.receiver->abandon_get("0", "1", "waited");
  Abandoned abandoned = waited_for.get();
  EXPECT_EQ(abandoned.key, "waited@0_1");
  EXPECT_FALSE(abandoned.taken);
  EXPECT_EQ(abandoned.code, ErrorCode::cancelled);

  auto read = listen(*pair.sender);
  ASSERT_TRUE(put(*pair.sender, "read", 100'000).ok());
  const auto held = get(*pair.receiver, "read");
  ASSERT_TRUE(held.ok());
  pair.receiver->abandon_get("0", "1", "read");
  abandoned = read.get();
  EXPECT_EQ(abandoned.key, "read@0_1");
  EXPECT_TRUE(abandoned.taken);
  pair.sender->on_abandoned({});
}

TEST(GivingUp, R07_also_when_they_have_not_met_yet) {
  ConnectorPair pair({});
  auto heard = listen(*pair.sender);
  ASSERT_TRUE(pair.receiver->watch("0", "1", "early", {}).ok());
  pair.receiver->abandon_get("0", "1", "early");
  EXPECT_EQ(heard.get().key, "early@0_1");
  pair.sender->on_abandoned({});
}

TEST(GivingUp, R07_the_sender_hears_of_what_a_lost_receiver_waited_for) {
  ConnectorPair pair({});
  ASSERT_TRUE(pair.meet());
  auto heard = listen(*pair.sender);
  ASSERT_TRUE(pair.receiver->watch("0", "1", "k", {}).ok());
  pair.await_watch();
  pair.receiver.reset();
  const Abandoned abandoned = heard.get();
  EXPECT_EQ(abandoned.key, "k@0_1");
  EXPECT_EQ(abandoned.code, ErrorCode::unavailable);
  pair.sender->on_abandoned({});
}

TEST(GivingUp, R07_an_abort_is_not_told_to_the_next_use_of_a_key_whose_receiver_gave_up_too) {
  ConnectorPair pair({});
  ASSERT_TRUE(pair.meet());
  for (const bool sender_first : {true, false}) {
    auto heard = listen(*pair.sender);
    ASSERT_TRUE(pair.receiver->watch("0", "1", "k", {}).ok());
    pair.await_watch();
    if (sender_first) pair.sender->abort("0", "1", "k", "aborted");
    pair.receiver->abandon_get("0", "1", "k");
    if (!sender_first) {
      heard.wait();
      pair.sender->abort("0", "1", "k", "aborted");
    }
    auto next = std::async(std::launch::async, [&] { return get(*pair.receiver, "k"); });
    pair.await_watch();
    ASSERT_TRUE(put(*pair.sender, "k").ok());
    const auto got = next.get();
    EXPECT_TRUE(got.ok()) << got.error().to_string();
    pair.sender->on_abandoned({});
  }
}

/// How a catch_up() of `sender` ends.
std::future<Status> catch_up(Connector& sender, ms timeout = ms(20'000)) {
  auto ended = std::make_shared<std::promise<Status>>();
  sender.catch_up(timeout, [ended](const Status& status) { ended->set_value(status); });
  return ended->get_future();
}

TEST(CatchUp, R07_what_receivers_said_before_has_been_heard) {
  ConnectorPair pair({});
  EXPECT_TRUE(catch_up(*pair.sender).get().ok()) << "there is nobody to be heard";
  ASSERT_TRUE(pair.meet());
  std::atomic<int> heard{0};
  pair.sender->on_abandoned([&](std::string_view, bool, const Error&) { ++heard; });
  for (int said = 1; said <= 200; ++said) {
    const std::string key = "k" + std::to_string(said);
    ASSERT_TRUE(pair.receiver->watch("0", "1", key, {}).ok());
    pair.receiver->abandon_get("0", "1", key);
    ASSERT_TRUE(catch_up(*pair.sender).get().ok());
    ASSERT_EQ(heard, said);
  }
  pair.sender->on_abandoned({});
}

TEST(CatchUp, R05_a_receiver_that_does_not_answer_is_waited_for_up_to_the_timeout) {
  ConnectorPair pair({});
  ASSERT_TRUE(pair.meet());
  DeafReceiver deaf(pair);
  const Status late = catch_up(*pair.sender, ms(20)).get();
  deaf.go_on();
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().code(), ErrorCode::timeout);
  EXPECT_NE(late.error().message().find("1 receivers have not answered within 20 ms"), std::string::npos)
      << late.error().message();
  EXPECT_TRUE(catch_up(*pair.sender).get().ok());
}

TEST(CatchUp, R05_a_receiver_that_is_lost_has_nothing_more_to_say) {
  ConnectorPair pair({});
  ASSERT_TRUE(pair.meet());
  DeafReceiver deaf(pair);
  auto caught_up = catch_up(*pair.sender);
  std::thread closing([&] { pair.receiver.reset(); });
  deaf.go_on();
  closing.join();
  EXPECT_TRUE(caught_up.get().ok());
  auto closed = catch_up(*pair.sender);
  pair.sender->close();
  EXPECT_TRUE(closed.get().ok()) << "nobody was left";
  EXPECT_EQ(catch_up(*pair.sender).get().error().code(), ErrorCode::closed);
}

TEST(GivingUp, withdrawing_drops_only_what_is_there) {
  ConnectorPair pair({});
  ASSERT_TRUE(pair.meet());
  EXPECT_FALSE(pair.sender->withdraw("0", "1", "k", "unused"));
  ASSERT_TRUE(put(*pair.sender, "k").ok());
  EXPECT_TRUE(pair.sender->withdraw("0", "1", "k", "no longer true"));
  EXPECT_FALSE(pair.sender->withdraw("0", "1", "k", "unused"));
  const auto told = get(*pair.receiver, "k");
  EXPECT_EQ(told.error().code(), ErrorCode::cancelled);
  EXPECT_NE(told.error().message().find("no longer true"), std::string::npos);
  // Without a reason nobody is told, and after cleanup() neither.
  ASSERT_TRUE(put(*pair.sender, "a").ok());
  EXPECT_TRUE(pair.sender->withdraw("0", "1", "a", {}));
  ASSERT_TRUE(put(*pair.sender, "b").ok());
  EXPECT_TRUE(pair.sender->withdraw("0", "1", "b", "forgotten"));
  ASSERT_TRUE(pair.sender->cleanup("b", "0", "1").ok());
  for (const char* const key : {"a", "b"}) {
    ASSERT_TRUE(put(*pair.sender, key).ok());
    EXPECT_TRUE(get(*pair.receiver, key).ok()) << key;
  }
  pair.expect_all_returned();
}

TEST(GivingUp, R05_what_was_watched_ahead_and_will_not_come_is_told_to_the_next_get) {
  ConnectorPair pair({});
  ASSERT_TRUE(pair.meet());
  ASSERT_TRUE(pair.receiver->watch("0", "1", "k", {}).ok());
  pair.await_watch();
  pair.sender.reset();
  EXPECT_EQ(get(*pair.receiver, "k").error().code(), ErrorCode::unavailable);
}

TEST(Allocating, R15_waits_for_space_without_a_thread) {
  ConnectorPair pair({.pool_size = 1 << 20});
  auto all = pair.sender->allocate(1 << 20);
  ASSERT_TRUE(all.ok());
  std::promise<Result<PoolBuffer>> granted;
  ASSERT_TRUE(pair.sender
                  ->allocate_async("0", "1", "a", 5000, {.timeout = ms(20'000)},
                                   [&](Result<PoolBuffer> buffer) { granted.set_value(std::move(buffer)); })
                  .ok());
  std::promise<Result<PoolBuffer>> late;
  ASSERT_TRUE(pair.sender
                  ->allocate_async("0", "1", "b", 6000, {.timeout = ms(20)},
                                   [&](Result<PoolBuffer> buffer) { late.set_value(std::move(buffer)); })
                  .ok());
  EXPECT_EQ(late.get_future().get().error().code(), ErrorCode::timeout);
  *all = PoolBuffer();
  auto buffer = granted.get_future().get();
  ASSERT_TRUE(buffer.ok()) << buffer.error().to_string();
  EXPECT_EQ(buffer->bytes().size(), 5000U);
  EXPECT_EQ(pair.sender->allocate_async("0", "1", "c", 0, {}, {}).error().code(),
            ErrorCode::invalid_argument);
}

// A pool full of what nobody wants yet would stop what somebody waits for.
TEST(Allocating, R15_what_is_put_ahead_leaves_room_for_what_is_waited_for) {
  ConnectorPair pair({.pool_size = 1 << 20});
  ASSERT_TRUE(pair.meet());
  const std::vector<std::byte> bytes = pattern(100'000, 1);
  const PutOptions ahead{.spare = true};
  int fitted = 0;
  while (pair.sender->put("0", "1", "ahead" + std::to_string(fitted), bytes, ahead).ok()) ++fitted;
  EXPECT_GE(fitted, 4);
  EXPECT_LE(fitted, 5);  // of ten
  std::promise<Result<PoolBuffer>> waits;
  ASSERT_TRUE(pair.sender
                  ->allocate_async("0", "1", "wanted", bytes.size(), {.timeout = ms(20'000), .spare = true},
                                   [&](Result<PoolBuffer> buffer) { waits.set_value(std::move(buffer)); })
                  .ok());
  EXPECT_EQ(pair.sender->put("0", "1", "wanted", bytes, ahead).error().code(), ErrorCode::exhausted);
  std::promise<Result<Delivery>> got;
  ASSERT_TRUE(pair.receiver
                  ->get_async("0", "1", "wanted", {.timeout = ms(20'000), .metadata = {}},
                              [&](Result<Delivery> delivery) { got.set_value(std::move(delivery)); })
                  .ok());
  auto buffer = waits.get_future().get();  // the receiver asks, nothing has been freed
  ASSERT_TRUE(buffer.ok()) << buffer.error().to_string();
  std::memcpy(buffer->bytes().data(), bytes.data(), bytes.size());
  ASSERT_TRUE(pair.sender->put("0", "1", "wanted", std::move(*buffer)).ok());
  EXPECT_TRUE(got.get_future().get().ok());
}

TEST(Allocating, a_buffer_with_an_encoded_object_arrives_as_one) {
  ConnectorPair pair({});
  const Value object(Value::Map{{Value("answer"), Value(42)}});
  auto buffer = pair.sender->allocate(*encoded_size(object));
  ASSERT_TRUE(buffer.ok());
  ASSERT_TRUE(encode(object, buffer->bytes()).ok());
  const auto done = pair.sender->put("0", "1", "k", std::move(*buffer), {.encoded_object = true});
  ASSERT_TRUE(done.ok());
  EXPECT_FALSE(done->metadata.is_fast_path);
  const auto got = get(*pair.receiver, "k");
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->kind(), DeliveryKind::object);
  const auto value = got->object();
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(*value->find("answer")->get_if<std::int64_t>(), 42);
}

}  // namespace
}  // namespace stagewire::connector
