// Two ends in one process, connected in one direction: what the contract's tests start from.
#pragma once

#include <optional>

#include "conformance/side.hpp"

namespace stagewire::conformance {

inline WorkRequest request_of(Operation operation, const Registration& local, const RemoteRegion& remote,
                              std::span<const Segment> segments, std::uint64_t id = 0) {
  WorkRequest request;
  request.id = id;
  request.operation = operation;
  request.local = &local;
  request.remote = &remote;
  request.segments = segments;
  return request;
}

class Contract : public ::testing::TestWithParam<Subject> {
 protected:
  static BackendOptions small() {
    BackendOptions options;
    options.message_ring_size = 4096;
    options.payload_slots = 4;
    options.payload_slot_size = 1024;
    return options;
  }

  void connect() {
    to_b = a.connect(b);
    ASSERT_TRUE(drive({&a, &b}, [&] { return to_b->status().has_value() && b.events.arrived.size() == 1; }));
    ASSERT_TRUE(to_b->status()->ok()) << to_b->status()->error().to_string();
  }

  /// Sends, making progress while there is no room.
  void send(std::string_view text, const PayloadSlot& slot = {}) {
    Posted posted = Posted::full;
    ASSERT_TRUE(drive({&a, &b}, [&] {
      const auto sent = to_b->send(bytes_of(text), slot, true);
      EXPECT_TRUE(sent.ok());
      posted = sent ? *sent : Posted::completed;
      return posted == Posted::completed;
    }));
  }

  std::unique_ptr<RemoteRegion> import(const Registration& registration) {
    auto region = to_b->import(registration.remote_key());
    EXPECT_TRUE(region.ok()) << region.error().to_string();
    if (!region) return nullptr;
    EXPECT_TRUE(drive({&a, &b}, [&] { return (*region)->status().has_value(); }));
    return std::move(*region);
  }

  /// Posts and drives both ends until it has ended.
  Status run(WorkRequest request) {
    request.id = ++next_id;
    Posted posted = Posted::full;
    std::optional<Error> refused;
    EXPECT_TRUE(drive({&a, &b}, [&] {
      const auto result = to_b->post(request);
      if (!result) refused = result.error();
      posted = result ? *result : Posted::completed;
      return posted != Posted::full;
    }));
    if (refused) return *refused;
    if (posted == Posted::completed) return {};
    const std::size_t before = a.events.completions.size();
    EXPECT_TRUE(drive({&a, &b}, [&] { return a.events.completions.size() > before; }));
    EXPECT_EQ(a.events.completions.back().id, request.id);
    return a.events.completions.back().status;
  }

  Side a{GetParam(), small()};
  Side b{GetParam(), small()};
  std::unique_ptr<Endpoint> to_b;
  std::uint64_t next_id = 0;
};

/// Whether this machine has a device for it; tests over it run where one is, the guests of scripts/rdma-vm at
/// least.
inline bool has_rdma() {
  static const bool has = backend::create_backend("rdma", {}).ok();
  return has;
}

/// Every backend, and the decorator that does nothing.
inline std::vector<Subject> subjects() {
  std::vector<Subject> all = {
      {"local", "local", "", false}, {"shm", "shm", "", true}, {"fault_over_shm", "fault", "over=shm", true}};
  if (has_rdma()) {
    all.push_back({"rdma", "rdma", "", true});
    all.push_back({"fault_over_rdma", "fault", "over=rdma", true});
  }
  return all;
}

inline std::string name_of(const ::testing::TestParamInfo<Subject>& tested) {
  return tested.param.name;
}

}  // namespace stagewire::conformance
