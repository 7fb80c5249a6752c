// Two engines in one process, for tests.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "stagewire/engine.hpp"

namespace stagewire::testing_support {

using ms = std::chrono::milliseconds;

/// Longer than anything takes; a test that waits so long has failed.
constexpr ms kPatience{30'000};

inline std::string words(const Status& status) {
  return status ? "ok" : status.error().to_string();
}

/// The error's code; nullopt when it is ok.
inline std::optional<ErrorCode> code_of(const Status& status) {
  return status ? std::nullopt : std::optional(status.error().code());
}
inline std::optional<ErrorCode> code_of(const Transfer& transfer) {
  return code_of(transfer->wait_for(kPatience));
}

/// Fills `bytes` with what depends on `seed`.
inline void fill(std::span<std::byte> bytes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (std::size_t i = 0; i < bytes.size(); i += 8) {
    const std::uint64_t word = random();
    std::memcpy(bytes.data() + i, &word, std::min<std::size_t>(8, bytes.size() - i));
  }
}

inline bool all_are(std::span<const std::byte> bytes, std::byte value) {
  for (const std::byte byte : bytes) {
    if (byte != value) return false;
  }
  return true;
}

/// Until `condition` holds; false when it has not after kPatience.
inline bool eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

inline std::unique_ptr<IOEngine> make_engine(const IOEngineConfig& config) {
  auto engine = IOEngine::create(config);
  EXPECT_TRUE(engine.ok()) << engine.error().to_string();
  return engine ? std::move(*engine) : nullptr;
}

inline IOEngineConfig config_of(const std::string& key, const std::string& backend) {
  IOEngineConfig config;
  config.key = key;
  config.backends = {backend};
  return config;
}

/// `near` moves bytes, `far` owns what is moved from or to. They know each other.
struct EnginePair {
  explicit EnginePair(const std::string& backend, const IOEngineConfig& far_extra = {}) {
    near = make_engine(config_of("near", backend));
    IOEngineConfig far_config = far_extra;
    far_config.key = "far";
    far_config.backends = {backend};
    far = make_engine(far_config);
    EXPECT_TRUE(near->register_remote_engine(far->desc()).ok());
    EXPECT_TRUE(far->register_remote_engine(near->desc()).ok());
  }

  std::unique_ptr<EngineMemory> near_memory(std::size_t size, Access access = Access::local_only) const {
    return memory_of(*near, size, access);
  }
  std::unique_ptr<EngineMemory> far_memory(std::size_t size, Access access) const {
    return memory_of(*far, size, access);
  }
  static std::unique_ptr<EngineMemory> memory_of(IOEngine& engine, std::size_t size, Access access) {
    auto memory = engine.allocate(size, access);
    EXPECT_TRUE(memory.ok()) << memory.error().to_string();
    return memory ? std::move(*memory) : nullptr;
  }

  std::unique_ptr<IOEngine> near;
  std::unique_ptr<IOEngine> far;
};

/// Counts how often a transfer says that it has ended.
struct EndCounter {
  void watch(const Transfer& transfer) {
    transfer->on_end([this](const Status& status) {
      if (status) ++done;
      ++ended;
    });
  }
  /// How many have said so, when at least `count` have: whoever waited for a transfer may be told first.
  int await(int count) const {
    EXPECT_TRUE(eventually([&] { return ended >= count; }));
    return ended;
  }
  std::atomic<int> ended{0};
  std::atomic<int> done{0};
};

}  // namespace stagewire::testing_support
