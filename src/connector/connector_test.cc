// Two connectors of one process, over the real control plane and backends.
#include "stagewire/connector.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <thread>

#include "connector/connector_fixture.hpp"

namespace stagewire::connector {
namespace {

using testing_support::ConnectorPair;
using testing_support::ms;
using testing_support::pattern;

class RouteTest : public ::testing::TestWithParam<const char*> {};

TEST_P(RouteTest, carries_bytes_of_every_size) {
  ConnectorPair pair({.route = GetParam()});
  for (const std::size_t size : {1UL, 17UL, 4096UL, 4097UL, 8192UL, 8193UL, 65536UL, 1048577UL}) {
    const auto bytes = pattern(size, size);
    const std::string key = "k" + std::to_string(size);
    const auto put = pair.sender->put("0", "1", key, std::span<const std::byte>(bytes), {});
    ASSERT_TRUE(put.ok()) << put.error().to_string();
    EXPECT_EQ(put->size, size);
    auto got = pair.receiver->get("0", "1", key, {.timeout = ms(10'000), .metadata = {}});
    ASSERT_TRUE(got.ok()) << got.error().to_string();
    EXPECT_EQ(got->kind(), DeliveryKind::bytes);
    ASSERT_EQ(got->size(), size);
    EXPECT_EQ(std::memcmp(got->bytes().data(), bytes.data(), size), 0) << size;
  }
  pair.expect_all_returned();
}

TEST_P(RouteTest, a_waiting_receiver_gets_what_comes_later) {
  ConnectorPair pair({.route = GetParam()});
  for (int i = 0; i < 200; ++i) {
    const std::string key = "later-" + std::to_string(i);
    auto waiting = std::async(std::launch::async, [&] {
      return pair.receiver->get("0", "1", key, {.timeout = ms(10'000), .metadata = {}});
    });
    const auto bytes = pattern(static_cast<std::size_t>(100 + i * 50), static_cast<std::uint64_t>(i));
    ASSERT_TRUE(pair.sender->put("0", "1", key, std::span<const std::byte>(bytes), {}).ok());
    auto got = waiting.get();
    ASSERT_TRUE(got.ok()) << got.error().to_string();
    ASSERT_EQ(got->size(), bytes.size());
    EXPECT_EQ(std::memcmp(got->bytes().data(), bytes.data(), bytes.size()), 0);
  }
  pair.expect_all_returned();
}

INSTANTIATE_TEST_SUITE_P(Routes, RouteTest, ::testing::Values("auto", "eager", "lease", "read", "write"),
                         [](const auto& route) { return std::string(route.param); });

TEST(Connector, R18_dtype_and_shape_travel_on_the_raw_path) {
  ConnectorPair pair({});
  std::vector<float> numbers(24);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  TensorView tensor;
  tensor.dtype = DType::float32;
  tensor.shape = {4, 6};
  tensor.strides = {1, 4};  // column-major: arrives row-major
  tensor.data = reinterpret_cast<const std::byte*>(numbers.data());
  ASSERT_TRUE(pair.sender->put("0", "1", "t", tensor, {}).ok());
  auto got = pair.receiver->get("0", "1", "t", {.timeout = ms(10'000), .metadata = {}});
  ASSERT_TRUE(got.ok()) << got.error().to_string();
  const auto view = got->tensor();
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(view->dtype, DType::float32);
  EXPECT_EQ(view->shape, (std::vector<std::int64_t>{4, 6}));
  std::vector<float> rows(24);
  std::memcpy(rows.data(), view->data, 96);
  for (std::size_t row = 0; row < 4; ++row) {
    for (std::size_t column = 0; column < 6; ++column) {
      EXPECT_EQ(rows[row * 6 + column], numbers[row + column * 4]);
    }
  }
  EXPECT_EQ(got->object().error().code(), ErrorCode::invalid_argument);
}

TEST(Connector, objects_arrive_as_views) {
  ConnectorPair pair({});
  const Value object(Value::Map{{Value("finished"), Value(true)}, {Value("text"), Value("häß")}});
  ASSERT_TRUE(pair.sender->put("0", "1", "o", object, {}).ok());
  auto got = pair.receiver->get("0", "1", "o", {.timeout = ms(10'000), .metadata = {}});
  ASSERT_TRUE(got.ok());
  const auto value = got->object();
  ASSERT_TRUE(value.ok());
  ASSERT_NE(value->find("finished"), nullptr);
  EXPECT_EQ(*value->find("finished")->get_if<bool>(), true);
  EXPECT_EQ(*value->find("text")->get_if<std::string_view>(), "häß");
}

TEST(Connector, a_buffer_from_the_pool_is_published_without_a_copy) {
  ConnectorPair pair({.route = "lease"});
  auto buffer = pair.sender->allocate(100'000, {});
  ASSERT_TRUE(buffer.ok());
  std::memset(buffer->bytes().data(), 7, buffer->bytes().size());
  const std::uint64_t free_before = pair.sender->health().pool_free;
  ASSERT_TRUE(pair.sender->put("0", "1", "b", std::move(*buffer), {}).ok());
  EXPECT_EQ(pair.sender->health().pool_free, free_before);
  auto got = pair.receiver->get("0", "1", "b", {.timeout = ms(10'000), .metadata = {}});
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->size(), 100'000U);
  EXPECT_EQ(got->bytes()[99'999], std::byte{7});
  got->release();
  pair.expect_all_returned();
}

TEST(Connector, full_partial_and_no_metadata) {
  ConnectorPair pair({});
  const auto bytes = pattern(5000, 1);
  for (const bool partial : {false, true}) {
    const auto put = pair.sender->put("0", "1", "m", std::span<const std::byte>(bytes), {});
    ASSERT_TRUE(put.ok());
    TransferMetadata metadata = put->metadata;
    EXPECT_EQ(metadata.source_port, pair.sender->connection_info().zmq_port);
    EXPECT_TRUE(metadata.is_fast_path);
    if (partial) metadata.data_size.reset();
    auto got = pair.receiver->get("0", "1", "m", {.timeout = ms(10'000), .metadata = metadata});
    ASSERT_TRUE(got.ok()) << got.error().to_string();
    got->release();
    ASSERT_TRUE(pair.sender->drain(ms(10'000)).ok());
  }
  TransferMetadata nowhere;
  EXPECT_EQ(pair.receiver->get("0", "1", "m", {.timeout = ms(100), .metadata = nowhere}).error().code(),
            ErrorCode::invalid_argument);
}

TEST(Connector, R02_metadata_of_another_payload_gets_nothing) {
  ConnectorPair pair({});
  const auto old_bytes = pattern(5000, 1);
  const auto new_bytes = pattern(6000, 2);
  const auto old_put = pair.sender->put("0", "1", "m", std::span<const std::byte>(old_bytes), {});
  ASSERT_TRUE(pair.sender->put("0", "1", "m", std::span<const std::byte>(new_bytes), {}).ok());
  auto got = pair.receiver->get("0", "1", "m", {.timeout = ms(10'000), .metadata = old_put->metadata});
  EXPECT_EQ(got.error().code(), ErrorCode::conflict);
  got = pair.receiver->get("0", "1", "m", {.timeout = ms(10'000), .metadata = {}});
  ASSERT_TRUE(got.ok()) << got.error().to_string();
  EXPECT_EQ(got->size(), 6000U);
}

TEST(Connector, R02_a_payload_that_is_read_is_not_replaced_nor_freed) {
  ConnectorPair pair({.route = "lease"});
  const auto bytes = pattern(10'000, 3);
  ASSERT_TRUE(pair.sender->put("0", "1", "k", std::span<const std::byte>(bytes), {}).ok());
  auto got = pair.receiver->get("0", "1", "k", {.timeout = ms(10'000), .metadata = {}});
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(pair.sender->put("0", "1", "k", std::span<const std::byte>(bytes), {}).error().code(),
            ErrorCode::conflict);
  ASSERT_TRUE(pair.sender->cleanup("k", "0", "1").ok());
  // Hidden now; its block is not given to anybody while it is read.
  const auto other = pattern(10'000, 4);
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(
        pair.sender->put("0", "1", "x" + std::to_string(i), std::span<const std::byte>(other), {}).ok());
  }
  EXPECT_EQ(std::memcmp(got->bytes().data(), bytes.data(), bytes.size()), 0);
  got->release();
  ASSERT_TRUE(pair.sender->put("0", "1", "k", std::span<const std::byte>(bytes), {}).ok());
}

TEST(Connector, R02_an_expired_key_is_not_found) {
  ConnectorPair pair({.ttl_s = 0.05});
  const auto bytes = pattern(10'000, 3);
  ASSERT_TRUE(pair.sender->put("0", "1", "k", std::span<const std::byte>(bytes), {}).ok());
  ASSERT_TRUE(pair.sender->drain(ms(10'000)).ok());  // ends when it has expired
  EXPECT_EQ(pair.sender->health().expired, 1U);
  EXPECT_EQ(pair.receiver->get("0", "1", "k", {.timeout = ms(50), .metadata = {}}).error().code(),
            ErrorCode::timeout);
  pair.expect_all_returned();
}

TEST(Connector, R05_a_get_ends_at_its_deadline_and_the_payload_is_not_lost) {
  ConnectorPair pair({});
  ASSERT_TRUE(pair.meet());
  EXPECT_EQ(pair.receiver->get("0", "1", "slow", {.timeout = ms(30), .metadata = {}}).error().code(),
            ErrorCode::timeout);
  EXPECT_EQ(pair.receiver->get("0", "1", "slow", {.timeout = ms(0), .metadata = {}}).error().code(),
            ErrorCode::not_found);
  const auto bytes = pattern(1000, 5);
  ASSERT_TRUE(pair.sender->put("0", "1", "slow", std::span<const std::byte>(bytes), {}).ok());
  auto got = pair.receiver->get("0", "1", "slow", {.timeout = ms(10'000), .metadata = {}});
  ASSERT_TRUE(got.ok()) << got.error().to_string();
  EXPECT_EQ(got->size(), 1000U);
}

TEST(Connector, R05_nobody_at_the_address_is_unavailable) {
  auto receiver = Connector::create({.stage_id = 1, .zmq_port = 0, .memory_pool_size = 1 << 20});
  ASSERT_TRUE(receiver.ok()) << receiver.error().to_string();
  EXPECT_EQ((*receiver)->get("0", "1", "k", {.timeout = ms(10), .metadata = {}}).error().code(),
            ErrorCode::invalid_argument);
  (*receiver)->update_sender_info("127.0.0.1", 1);
  const auto got = (*receiver)->get("0", "1", "k", {.timeout = ms(50), .metadata = {}});
  EXPECT_EQ(got.error().code(), ErrorCode::unavailable);
  EXPECT_NE(got.error().message().find("127.0.0.1:1"), std::string::npos) << got.error().message();
}

TEST(Connector, a_sender_may_be_named) {
  ConnectorPair pair({});
  pair.receiver->update_sender_info("localhost", pair.sender->connection_info().zmq_port);
  EXPECT_TRUE(pair.meet());
  TransferMetadata unknown{"no-such-host.invalid", 50051, std::nullopt, true};
  const auto got = pair.receiver->get("0", "1", "k", {.timeout = ms(20'000), .metadata = unknown});
  EXPECT_EQ(got.error().code(), ErrorCode::invalid_argument);
  EXPECT_NE(got.error().message().find("no-such-host.invalid"), std::string::npos) << got.error().message();
}

TEST(Connector, R07_abandoning_ends_the_wait_and_frees_both_sides) {
  ConnectorPair pair({});
  ASSERT_TRUE(pair.meet());
  auto waiting = std::async(std::launch::async, [&] {
    return pair.receiver->get("0", "1", "gone", {.timeout = ms(60'000), .metadata = {}});
  });
  pair.await_watch();
  pair.receiver->abandon_get("0", "1", "gone");
  EXPECT_EQ(waiting.get().error().code(), ErrorCode::cancelled);
  const auto bytes = pattern(100, 1);
  ASSERT_TRUE(pair.sender->put("0", "1", "gone", std::span<const std::byte>(bytes), {}).ok());
  ASSERT_TRUE(pair.sender->cleanup("gone", "0", "1").ok());
  pair.expect_all_returned();
}

TEST(Connector, R07_aborting_a_key_tells_who_waits_or_else_who_comes_later) {
  ConnectorPair pair({});
  ASSERT_TRUE(pair.meet());
  auto waiting = std::async(std::launch::async, [&] {
    return pair.receiver->get("0", "1", "a", {.timeout = ms(60'000), .metadata = {}});
  });
  pair.await_watch();
  pair.sender->abort("0", "1", "a", "request 7 was aborted");
  const auto got = waiting.get();
  EXPECT_EQ(got.error().code(), ErrorCode::cancelled);
  EXPECT_NE(got.error().message().find("request 7 was aborted"), std::string::npos);
  pair.sender->abort("0", "1", "b", "request 8 was aborted");
  EXPECT_EQ(pair.receiver->get("0", "1", "b", {.timeout = ms(10'000), .metadata = {}}).error().code(),
            ErrorCode::cancelled);
  // Told once: the key may be used again.
  for (const char* const key : {"a", "b"}) {
    const auto bytes = pattern(100, 1);
    ASSERT_TRUE(pair.sender->put("0", "1", key, std::span<const std::byte>(bytes), {}).ok());
    EXPECT_TRUE(pair.receiver->get("0", "1", key, {.timeout = ms(10'000), .metadata = {}}).ok());
  }
  pair.expect_all_returned();
}

TEST(Connector, R16_only_those_who_share_the_secret_key_get_a_payload) {
  ConnectorConfig config{.stage_id = 0, .zmq_port = 0, .memory_pool_size = 1 << 20};
  config.secret_key = std::string(64, 'a');
  const auto sender = Connector::create(config);
  ASSERT_TRUE(sender.ok()) << sender.error().to_string();
  const auto bytes = pattern(100, 1);
  ASSERT_TRUE((*sender)->put("0", "1", "k", std::span<const std::byte>(bytes), {}).ok());
  config.stage_id = 1;
  config.sender_host = "127.0.0.1";
  config.sender_zmq_port = (*sender)->connection_info().zmq_port;
  for (const std::string& key : {std::string(), std::string(64, 'b')}) {
    config.secret_key = key;
    const auto stranger = Connector::create(config);
    ASSERT_TRUE(stranger.ok());
    EXPECT_FALSE((*stranger)->get("0", "1", "k", {.timeout = ms(300), .metadata = {}}).ok());
  }
  config.secret_key = std::string(64, 'A');  // the same digits
  const auto receiver = Connector::create(config);
  ASSERT_TRUE(receiver.ok());
  EXPECT_TRUE((*receiver)->get("0", "1", "k", {.timeout = ms(20'000), .metadata = {}}).ok());
}

TEST(Connector, R13_empty_keys_and_payloads_are_refused) {
  ConnectorPair pair({});
  const auto bytes = pattern(10, 1);
  EXPECT_EQ(pair.sender->put("0", "1", "", std::span<const std::byte>(bytes), {}).error().code(),
            ErrorCode::invalid_argument);
  EXPECT_EQ(pair.sender->put("0", "1", "k", std::span<const std::byte>(), {}).error().code(),
            ErrorCode::invalid_argument);
  EXPECT_EQ(pair.sender->cleanup("k", "0", std::nullopt).error().code(), ErrorCode::invalid_argument);
  EXPECT_EQ(*make_key("chatcmpl-1_0_0", "0", "1"), "chatcmpl-1_0_0@0_1");
}

TEST(Connector, R15_a_put_waits_for_space_within_its_deadline) {
  ConnectorPair pair({.pool_size = 1 << 20, .route = "lease"});
  const auto big = pattern(700'000, 1);
  EXPECT_EQ(pair.sender->put("0", "1", "huge", std::span<const std::byte>(pattern(2'000'000, 1)), {})
                .error()
                .code(),
            ErrorCode::too_large);
  ASSERT_TRUE(pair.sender->put("0", "1", "first", std::span<const std::byte>(big), {}).ok());
  EXPECT_EQ(pair.sender->put("0", "1", "second", std::span<const std::byte>(big), {}).error().code(),
            ErrorCode::exhausted);
  EXPECT_EQ(pair.sender->put("0", "1", "second", std::span<const std::byte>(big), {.timeout = ms(30)})
                .error()
                .code(),
            ErrorCode::timeout);
  auto first = pair.receiver->get("0", "1", "first", {.timeout = ms(10'000), .metadata = {}});
  ASSERT_TRUE(first.ok());
  auto waiting = std::async(std::launch::async, [&] {
    return pair.sender->put("0", "1", "second", std::span<const std::byte>(big), {.timeout = ms(60'000)});
  });
  first->release();
  EXPECT_TRUE(waiting.get().ok());
  auto second = pair.receiver->get("0", "1", "second", {.timeout = ms(10'000), .metadata = {}});
  ASSERT_TRUE(second.ok());
  second->release();
  pair.expect_all_returned();
}

TEST(Connector, asynchronous_gets_and_watches_call_back_once) {
  ConnectorPair pair({});
  std::promise<Result<Delivery>> got;
  std::promise<Status> watched;
  ASSERT_TRUE(pair.receiver
                  ->get_async("0", "1", "a", {.timeout = ms(60'000), .metadata = {}},
                              [&](Result<Delivery> result) { got.set_value(std::move(result)); })
                  .ok());
  ASSERT_TRUE(pair.receiver->watch("0", "1", "w", [&](Status status) { watched.set_value(status); }).ok());
  const auto bytes = pattern(20'000, 9);
  ASSERT_TRUE(pair.sender->put("0", "1", "a", std::span<const std::byte>(bytes), {}).ok());
  ASSERT_TRUE(pair.sender->put("0", "1", "w", std::span<const std::byte>(bytes), {}).ok());
  auto delivery = got.get_future().get();
  ASSERT_TRUE(delivery.ok());
  EXPECT_EQ(std::memcmp(delivery->bytes().data(), bytes.data(), bytes.size()), 0);
  EXPECT_TRUE(watched.get_future().get().ok());
  EXPECT_TRUE(pair.receiver->get("0", "1", "w", {.timeout = ms(0), .metadata = {}}).ok());
  delivery->release();

  std::promise<Result<Delivery>> late;
  ASSERT_TRUE(pair.receiver
                  ->get_async("0", "1", "never", {.timeout = ms(20), .metadata = {}},
                              [&](Result<Delivery> result) { late.set_value(std::move(result)); })
                  .ok());
  EXPECT_EQ(late.get_future().get().error().code(), ErrorCode::timeout);
}

TEST(Connector, closing_ends_every_wait_and_deliveries_stay_valid) {
  ConnectorPair pair({.route = "lease"});
  const auto bytes = pattern(50'000, 2);
  ASSERT_TRUE(pair.sender->put("0", "1", "k", std::span<const std::byte>(bytes), {}).ok());
  auto got = pair.receiver->get("0", "1", "k", {.timeout = ms(10'000), .metadata = {}});
  ASSERT_TRUE(got.ok());
  auto waiting = std::async(std::launch::async, [&] {
    return pair.receiver->get("0", "1", "more", {.timeout = ms(60'000), .metadata = {}});
  });
  pair.await_watch();
  std::thread closer([&] { pair.receiver->close(); });
  pair.receiver->close();
  closer.join();
  EXPECT_EQ(waiting.get().error().code(), ErrorCode::closed);
  pair.sender.reset();
  EXPECT_EQ(std::memcmp(got->bytes().data(), bytes.data(), bytes.size()), 0);
  pair.receiver->close();
  EXPECT_FALSE(pair.receiver->health().healthy);
  pair.receiver.reset();
  got->release();
}

TEST(Connector, a_key_that_nobody_asks_about_is_forgotten_on_both_sides) {
  ConnectorPair pair({.ttl_s = 1});
  ASSERT_TRUE(pair.meet());
  ASSERT_TRUE(pair.receiver->watch("0", "1", "never", nullptr).ok());
  EXPECT_EQ(pair.receiver->get("0", "1", "never", {.timeout = ms(1), .metadata = {}}).error().code(),
            ErrorCode::timeout);
  pair.await_watch();
  while (pair.sender->health().watched > 0) std::this_thread::yield();
  const auto bytes = pattern(100, 1);
  ASSERT_TRUE(pair.sender->put("0", "1", "never", std::span<const std::byte>(bytes), {}).ok());
  EXPECT_TRUE(pair.receiver->get("0", "1", "never", {.timeout = ms(20'000), .metadata = {}}).ok());
}

TEST(Connector, R09_a_sender_restarted_on_the_same_port_works_at_once) {
  ConnectorPair pair({});
  ASSERT_TRUE(pair.meet());
  const int port = pair.sender->connection_info().zmq_port;
  pair.sender.reset();
  pair.make_sender(port);
  const auto bytes = pattern(3000, 8);
  ASSERT_TRUE(pair.sender->put("0", "1", "again", std::span<const std::byte>(bytes), {}).ok());
  auto got = pair.receiver->get("0", "1", "again", {.timeout = ms(20'000), .metadata = {}});
  if (!got)
    got = pair.receiver->get("0", "1", "again", {.timeout = ms(20'000), .metadata = {}});  // one failed try
  ASSERT_TRUE(got.ok()) << got.error().to_string();
  EXPECT_EQ(got->size(), 3000U);
}

TEST(Connector, a_lost_sender_ends_the_wait) {
  ConnectorPair pair({});
  ASSERT_TRUE(pair.meet());
  auto waiting = std::async(std::launch::async, [&] {
    return pair.receiver->get("0", "1", "k", {.timeout = ms(60'000), .metadata = {}});
  });
  pair.await_watch();
  pair.sender.reset();
  EXPECT_EQ(waiting.get().error().code(), ErrorCode::unavailable);
}

TEST(Connector, many_threads_on_one_pair) {
  ConnectorPair pair({.pool_size = 64 << 20});
  constexpr int kThreads = 4;
  constexpr int kRounds = 300;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) {
        const auto bytes = pattern(static_cast<std::size_t>(1 + (i * 977 + t * 131) % 30'000),
                                   static_cast<std::uint64_t>(i));
        const std::string key = std::to_string(t) + "_" + std::to_string(i);
        EXPECT_TRUE(
            pair.sender->put("0", "1", key, std::span<const std::byte>(bytes), {.timeout = ms(60'000)}).ok());
      }
    });
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) {
        const auto bytes = pattern(static_cast<std::size_t>(1 + (i * 977 + t * 131) % 30'000),
                                   static_cast<std::uint64_t>(i));
        const std::string key = std::to_string(t) + "_" + std::to_string(i);
        auto got = pair.receiver->get("0", "1", key, {.timeout = ms(60'000), .metadata = {}});
        ASSERT_TRUE(got.ok()) << got.error().to_string();
        ASSERT_EQ(got->size(), bytes.size());
        EXPECT_EQ(std::memcmp(got->bytes().data(), bytes.data(), bytes.size()), 0);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  pair.expect_all_returned();
  const Health health = pair.receiver->health();
  EXPECT_EQ(health.gets, static_cast<std::uint64_t>(kThreads * kRounds));
  EXPECT_GT(health.latency_p50_us, 0.0);
  EXPECT_NE(health.route_reason.find("shm"), std::string::npos) << health.route_reason;
}

}  // namespace
}  // namespace stagewire::connector
