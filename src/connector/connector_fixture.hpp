// A sending and a receiving connector in one process, for tests.
#pragma once

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "stagewire/connector.hpp"
#include "support/pattern.hpp"

namespace stagewire::testing_support {

using ms = std::chrono::milliseconds;

using test::pattern;

struct PairOptions {
  std::uint64_t pool_size = 16 << 20;
  std::string route = "auto";
  double ttl_s = 300;
  WaitStrategy wait = WaitStrategy::adaptive;
  std::string backend = "shm";
};

struct ConnectorPair {
  explicit ConnectorPair(const PairOptions& pair_options) : options(pair_options) {
    make_sender(0);
    ConnectorConfig config = config_of(1, 0);
    config.sender_host = sender->connection_info().host;
    config.sender_zmq_port = sender->connection_info().zmq_port;
    auto made = Connector::create(config);
    EXPECT_TRUE(made.ok()) << made.error().to_string();
    receiver = std::move(*made);
  }

  ConnectorConfig config_of(int stage, int port) const {
    ConnectorConfig config;
    config.stage_id = stage;
    config.role = Role::dual;
    config.zmq_port = port;
    config.memory_pool_size = options.pool_size;
    config.buffer_ttl_s = options.ttl_s;
    config.route = options.route;
    config.wait = options.wait;
    config.backend_type = options.backend;
    return config;
  }

  void make_sender(int port) {
    auto made = Connector::create(config_of(0, port));
    ASSERT_TRUE(made.ok()) << made.error().to_string();
    sender = std::move(*made);
    sender_free = sender->health().pool_free;
  }

  /// One payload there: both have met and mapped each other afterwards.
  bool meet() {
    const auto bytes = pattern(10'000, 42);
    if (!sender->put("0", "1", "meet", std::span<const std::byte>(bytes), {}).ok()) return false;
    return receiver->get("0", "1", "meet", {.timeout = ms(20'000), .metadata = {}}).ok();
  }

  /// Until a receiver waits for something here.
  void await_watch() const {
    while (sender->health().watched == 0) std::this_thread::yield();
  }

  /// Everything that was put has been taken, and both pools are as they were.
  void expect_all_returned() {
    const Status drained = sender->drain(ms(20'000));
    EXPECT_TRUE(drained.ok()) << (drained.ok() ? "" : drained.error().to_string());
    // What was dropped while it was read is free when its reader has said that it is done.
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (sender->health().pool_free != sender_free || receiver->health().pool_free != options.pool_size) {
      if (std::chrono::steady_clock::now() > patience) break;
      std::this_thread::yield();
    }
    EXPECT_EQ(sender->health().pool_free, sender_free);
    EXPECT_EQ(receiver->health().pool_free, options.pool_size);
  }

  PairOptions options;
  std::unique_ptr<Connector> sender;
  std::unique_ptr<Connector> receiver;
  std::uint64_t sender_free = 0;
};

/// The receiver hears nothing while a callback of its user does not return.
class DeafReceiver {
 public:
  explicit DeafReceiver(const ConnectorPair& pair) {
    const auto callback = [this](const Status&) {
      inside_.set_value();
      go_on_.get_future().wait();
    };
    EXPECT_TRUE(pair.receiver->watch("0", "1", "deaf", callback).ok());
    const auto bytes = pattern(100, 1);
    EXPECT_TRUE(pair.sender->put("0", "1", "deaf", std::span<const std::byte>(bytes), {}).ok());
    inside_.get_future().wait();
  }
  void go_on() { go_on_.set_value(); }

 private:
  std::promise<void> inside_, go_on_;
};

}  // namespace stagewire::testing_support
