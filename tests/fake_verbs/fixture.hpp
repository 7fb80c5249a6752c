// Two backends over simulated verbs, and the check that nothing of verbs is left of them.
#pragma once

#include <gtest/gtest.h>

#include "conformance/contract.hpp"
#include "fake_verbs/control.hpp"

namespace stagewire::fake_verbs {

using conformance::bytes_of;
using conformance::drive;
using conformance::Memory;
using conformance::Side;
using SettingMap = std::map<std::string, std::string, std::less<>>;

inline void expect_nothing_is_left() {
  for (const char* kind : kKinds) EXPECT_EQ(control().live(kind), 0U) << kind;
}

class FakeVerbs : public ::testing::Test {
 protected:
  void SetUp() override { control().reset(); }
  void TearDown() override {
    to_b_.reset();
    a_.reset();
    b_.reset();
    expect_nothing_is_left();
    control().reset();
  }

  static BackendOptions options(SettingMap settings = {}) {
    BackendOptions options;
    options.message_ring_size = 4096;
    options.payload_slots = 4;
    options.payload_slot_size = 1024;
    // A broken connection shows after 2 * 4 ms.
    settings.try_emplace("rdma_ack_timeout", "10");
    settings.try_emplace("rdma_retry_count", "1");
    options.settings = std::move(settings);
    return options;
  }
  void make_sides(SettingMap settings = {}) {
    a_ = std::make_unique<Side>(kRdma, options(settings));
    b_ = std::make_unique<Side>(kRdma, options(settings));
  }
  void connect(SettingMap settings = {}) {
    make_sides(std::move(settings));
    to_b_ = a_->connect(*b_);
    ASSERT_TRUE(until([&] { return to_b_->status().has_value(); }));
    ASSERT_TRUE(to_b_->status()->ok()) << to_b_->status()->error().to_string();
  }
  /// Makes progress at both ends until then.
  template <typename Done>
  bool until(Done done) {
    return drive({a_.get(), b_.get()}, done);
  }
  std::unique_ptr<RemoteRegion> import(const Registration& registration) {
    return import(*to_b_, registration);
  }
  std::unique_ptr<RemoteRegion> import(Endpoint& endpoint, const Registration& registration) {
    auto region = endpoint.import(registration.remote_key());
    EXPECT_TRUE(region.ok());
    EXPECT_TRUE(until([&] { return (*region)->status().has_value(); }));
    return std::move(*region);
  }
  static WorkRequest request_of(std::uint64_t id, Operation operation, const Registration& local,
                                const RemoteRegion& remote, std::span<const Segment> segments) {
    return conformance::request_of(operation, local, remote, segments, id);
  }
  /// Posts it, making progress while there is no room.
  void post(const WorkRequest& request) {
    ASSERT_TRUE(until([&] {
      const auto posted = to_b_->post(request);
      EXPECT_TRUE(posted.ok()) << posted.error().to_string();
      return !posted.ok() || *posted == Posted::pending;
    }));
  }
  void send(std::string_view text) {
    ASSERT_TRUE(until([&] {
      const auto sent = to_b_->send(bytes_of(text), {}, true);
      EXPECT_TRUE(sent.ok()) << sent.error().to_string();
      return !sent.ok() || *sent == Posted::completed;
    }));
  }
  bool wait_for(std::size_t completions) {
    return until([&] { return a_->events.completions.size() >= completions; });
  }
  Status status_of(std::uint64_t id) const {
    for (const Completion& completion : a_->events.completions) {
      if (completion.id == id) return completion.status;
    }
    return Error(ErrorCode::failed, "there is no completion of it");
  }

  const conformance::Subject kRdma{"rdma", "rdma", "", true};
  std::unique_ptr<Side> a_, b_;
  std::unique_ptr<Endpoint> to_b_;
};

}  // namespace stagewire::fake_verbs
