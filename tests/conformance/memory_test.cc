// Regions, reads and writes: what every backend must do, both ends in one process.
#include "conformance/contract.hpp"

namespace stagewire::conformance {
namespace {

using MemoryContract = Contract;

// Both regions lie in the middle of larger mappings, at odd offsets; every byte around them is a canary.
TEST_P(MemoryContract, R04_offsets_are_honoured_and_bytes_beside_are_untouched) {
  connect();
  constexpr std::size_t kBegin = 5003;
  constexpr std::size_t kSize = 70001;
  const Memory here(1 << 17);
  const Memory there(1 << 17);
  here.fill(1);
  there.fill(2);
  const auto local = a.add(here.region(kBegin + 1, kSize));
  const auto remote = b.add(there.region(kBegin, kSize), Access::remote_read_write);
  const auto imported = import(*remote);
  ASSERT_TRUE(imported && imported->status()->ok());
  EXPECT_EQ(imported->size(), kSize);
  const std::vector<Segment> read = {{100, 200, 300}, {5000, 0, 1}, {0, 0, 0}, {kSize - 7, kSize - 7, 7}};
  ASSERT_TRUE(run(request_of(Operation::read, *local, *imported, read)).ok());
  const auto inside = [](const Segment& s, std::size_t i) {
    return i >= s.local_offset && i < s.local_offset + s.size;
  };
  for (std::size_t i = 0; i < here.bytes().size(); ++i) {
    std::byte wanted = Memory::pattern(1, i);
    for (const Segment& s : read) {
      if (i > kBegin && inside(s, i - kBegin - 1)) {
        wanted = Memory::pattern(2, kBegin + s.remote_offset + (i - kBegin - 1 - s.local_offset));
      }
    }
    ASSERT_EQ(here.bytes()[i], wanted) << "at " << i;
  }
  here.fill(3);
  const std::vector<Segment> write = {{50, 10, 60000}};
  ASSERT_TRUE(run(request_of(Operation::write, *local, *imported, write)).ok());
  constexpr std::size_t kWritten = kBegin + 10;
  EXPECT_EQ(there.differs(2, 0, kWritten), kWritten);
  EXPECT_EQ(there.differs(3, kWritten, kWritten + 60000, 41), kWritten + 60000);
  EXPECT_EQ(there.differs(2, kWritten + 60000, there.bytes().size()), there.bytes().size());
}

TEST_P(MemoryContract, many_segments_are_one_request) {
  connect();
  const Memory here(1 << 20);
  const Memory there(1 << 20);
  there.fill(4);
  const auto local = a.add(here.region());
  const auto remote = b.add(there.region(), Access::remote_read);
  const auto imported = import(*remote);
  ASSERT_TRUE(imported && imported->status()->ok());
  std::vector<Segment> segments;
  for (std::size_t i = 0; i < 1024; ++i) segments.push_back({i * 1024, (1023 - i) * 1024, 1024});
  ASSERT_TRUE(run(request_of(Operation::read, *local, *imported, segments)).ok());
  for (std::size_t i = 0; i < 1024; ++i) {
    // The last kibibyte came first.
    ASSERT_EQ(std::memcmp(here.bytes().data() + i * 1024, there.bytes().data() + (1023 - i) * 1024, 1024), 0)
        << i;
  }
}

TEST_P(MemoryContract, R19_sizes_from_nothing_to_64_MiB) {
  connect();
  constexpr std::size_t kLargest = 64 << 20;
  const Memory here(kLargest);
  const Memory there(kLargest);
  there.fill(5);
  const auto local = a.add(here.region());
  const auto remote = b.add(there.region(), Access::remote_read_write);
  const auto imported = import(*remote);
  ASSERT_TRUE(imported && imported->status()->ok());
  for (const std::size_t size :
       {0UL, 1UL, 63UL, 4096UL, (256UL << 10) + 1, (1UL << 20) - 1, (8UL << 20) + 3, kLargest}) {
    const std::vector<Segment> whole = {{0, kLargest - size, size}};
    std::memset(here.bytes().data(), 0, size);
    ASSERT_TRUE(run(request_of(Operation::read, *local, *imported, whole)).ok()) << size;
    ASSERT_EQ(std::memcmp(here.bytes().data(), there.bytes().data() + kLargest - size, size), 0) << size;
    for (std::size_t i = 0; i < size; i += 4093) here.bytes()[i] ^= std::byte{0xff};
    ASSERT_TRUE(run(request_of(Operation::write, *local, *imported, whole)).ok()) << size;
    ASSERT_EQ(std::memcmp(here.bytes().data(), there.bytes().data() + kLargest - size, size), 0) << size;
  }
}

TEST_P(MemoryContract, R19_regions_beyond_4_GiB) {
  if (!a.backend->capabilities().same_host_only && !a.backend->capabilities().same_process_only) {
    GTEST_SKIP() << "this backend pins what it registers: 6 GiB";
  }
  connect();
  constexpr std::uint64_t kFar = (5ULL << 30) + 12345;  // sparse: only what is touched takes memory
  const Memory here(1 << 16);
  const Memory there(6ULL << 30);
  std::memcpy(there.bytes().data() + kFar, "far away", 8);
  const auto local = a.add(here.region());
  const auto remote = b.add(there.region(), Access::remote_read);
  const auto imported = import(*remote);
  ASSERT_TRUE(imported && imported->status()->ok());
  const std::vector<Segment> segments = {{0, kFar, 8}};
  ASSERT_TRUE(run(request_of(Operation::read, *local, *imported, segments)).ok());
  EXPECT_EQ(bytes_of(here.bytes().first(8)), bytes_of("far away"));
  if (const std::byte* mapped = imported->mapping()) {
    EXPECT_EQ(std::memcmp(mapped + kFar, "far away", 8), 0);
  }
}

// The notification is looked at where it is delivered: the data must be there by then, also of a large copy.
TEST_P(MemoryContract, R23_the_notification_comes_after_the_data) {
  connect();
  for (const std::size_t size : {8UL, 4UL << 20}) {
    const Memory here(size);
    const Memory there(size);
    here.fill(size);
    const auto local = a.add(here.region());
    const auto remote = b.add(there.region(), Access::remote_write);
    const auto imported = import(*remote);
    ASSERT_TRUE(imported && imported->status()->ok());
    EXPECT_EQ(imported->mapping(), nullptr) << "reading was not granted";
    std::size_t notified = 0;
    b.events.when_notified = [&](std::uint32_t value) {
      ++notified;
      EXPECT_EQ(value, 77U);
      EXPECT_EQ(std::memcmp(here.bytes().data(), there.bytes().data(), size), 0);
    };
    const std::vector<Segment> whole = {{0, 0, size}};
    WorkRequest request = request_of(Operation::write, *local, *imported, whole);
    request.notification = 77;
    ASSERT_TRUE(run(request).ok());
    ASSERT_TRUE(drive({&a, &b}, [&] { return notified == 1; }));
    b.events.when_notified = nullptr;
  }
}

// More notifications than the ring holds while the receiver does not look: none is lost, each request ends
// once.
TEST_P(MemoryContract, notifications_wait_for_room) {
  connect();
  const Memory here(4096);
  const Memory there(4096);
  const auto local = a.add(here.region());
  const auto remote = b.add(there.region(), Access::remote_write);
  const auto imported = import(*remote);
  ASSERT_TRUE(imported && imported->status()->ok());
  std::size_t completed = 0;
  std::size_t pending = 0;
  const std::vector<Segment> segments = {{0, 0, 8}};
  for (std::uint32_t i = 0; i < 1000; ++i) {
    WorkRequest request = request_of(Operation::write, *local, *imported, segments);
    request.id = i;
    request.notification = i;
    const auto posted = to_b->post(request);
    ASSERT_TRUE(posted.ok());
    if (*posted == Posted::full) break;
    (*posted == Posted::completed ? completed : pending)++;
  }
  EXPECT_LT(completed, 1000U) << "the ring was to be filled";
  ASSERT_TRUE(drive({&a, &b}, [&] {
    return a.events.completions.size() == pending && b.events.notifications.size() == completed + pending;
  }));
  for (std::size_t i = 0; i < b.events.notifications.size(); ++i)
    EXPECT_EQ(b.events.notifications[i].second, i);
}

TEST_P(MemoryContract, access_is_what_was_granted) {
  connect();
  const Memory here(4096);
  const Memory there(4096);
  const auto local = a.add(here.region());
  const auto hidden = b.add(there.region(), Access::local_only);
  EXPECT_EQ(to_b->import(hidden->remote_key()).error().code(), ErrorCode::permission);
  const auto readable = b.add(there.region(), Access::remote_read);
  const auto writable = b.add(there.region(), Access::remote_write);
  const auto can_read = import(*readable);
  const auto can_write = import(*writable);
  ASSERT_TRUE(can_read && can_read->status()->ok() && can_write && can_write->status()->ok());
  const std::vector<Segment> segments = {{0, 0, 8}};
  EXPECT_TRUE(run(request_of(Operation::read, *local, *can_read, segments)).ok());
  EXPECT_TRUE(run(request_of(Operation::write, *local, *can_write, segments)).ok());
  EXPECT_EQ(run(request_of(Operation::write, *local, *can_read, segments)).error().code(),
            ErrorCode::permission);
  EXPECT_EQ(run(request_of(Operation::read, *local, *can_write, segments)).error().code(),
            ErrorCode::permission);
  if (can_read->mapping() != nullptr && GetParam().processes) {
    // The mapping itself cannot be made writable.
    auto* page = const_cast<std::byte*>(can_read->mapping());
    EXPECT_NE(::mprotect(page, 4096, PROT_READ | PROT_WRITE), 0);
  }
}

TEST_P(MemoryContract, segments_outside_a_region_are_refused) {
  connect();
  const Memory here(4096);
  const Memory there(8192);
  const auto local = a.add(here.region());
  const auto remote = b.add(there.region(), Access::remote_read);
  const auto imported = import(*remote);
  ASSERT_TRUE(imported && imported->status()->ok());
  for (const Segment& wrong :
       {Segment{0, 8191, 2}, Segment{4095, 0, 2}, Segment{0, ~0ULL, 2}, Segment{1, 0, ~0ULL}}) {
    const std::vector<Segment> segments = {wrong};
    EXPECT_EQ(run(request_of(Operation::read, *local, *imported, segments)).error().code(),
              ErrorCode::invalid_argument);
  }
}

TEST_P(MemoryContract, a_deregistered_region_cannot_be_imported_any_more) {
  connect();
  const Memory there(4096);
  auto remote = b.add(there.region(), Access::remote_read);
  const Bytes key = bytes_of(remote->remote_key());
  const auto before = import(*remote);
  ASSERT_TRUE(before && before->status()->ok());
  remote.reset();
  auto after = to_b->import(key);
  ASSERT_TRUE(after.ok());
  ASSERT_TRUE(drive({&a, &b}, [&] { return (*after)->status().has_value(); }));
  ASSERT_FALSE((*after)->status()->ok());
  EXPECT_EQ((*after)->status()->error().code(), ErrorCode::not_found);
}

TEST_P(MemoryContract, a_key_of_another_peer_is_not_found) {
  connect();
  Side c(GetParam(), small());
  const Memory elsewhere(4096);
  const auto foreign = c.add(elsewhere.region(), Access::remote_read);
  auto imported = to_b->import(foreign->remote_key());
  if (!imported) {
    EXPECT_EQ(imported.error().code(), ErrorCode::not_found);
    return;
  }
  ASSERT_TRUE(drive({&a, &b}, [&] { return (*imported)->status().has_value(); }));
  EXPECT_EQ((*imported)->status()->error().code(), ErrorCode::not_found);
}

TEST_P(MemoryContract, memory_without_a_file_is_for_local_use_or_refused_with_advice) {
  connect();
  Bytes plain(4096);
  MemoryRegion region;
  region.data = plain.data();
  region.size = plain.size();
  const auto local = a.add(region);
  const Memory there(4096);
  there.fill(6);
  const auto remote = b.add(there.region(), Access::remote_read);
  const auto imported = import(*remote);
  ASSERT_TRUE(imported && imported->status()->ok());
  const std::vector<Segment> segments = {{0, 0, 4096}};
  ASSERT_TRUE(run(request_of(Operation::read, *local, *imported, segments)).ok());
  EXPECT_EQ(plain, bytes_of(there.bytes()));
  const Capabilities& can = a.backend->capabilities();
  if (can.same_process_only || !can.maps_remote) return;  // it needs no file
  const auto refused = b.backend->register_region(region, Access::remote_read);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::unsupported);
  EXPECT_NE(refused.error().message().find("IOEngine::allocate"), std::string::npos);
}

TEST_P(MemoryContract, an_endpoint_that_goes_ends_what_is_pending) {
  connect();
  constexpr std::size_t kSize = 32 << 20;
  const Memory here(kSize);
  const Memory there(kSize);
  const auto local = a.add(here.region());
  const auto remote = b.add(there.region(), Access::remote_read);
  const auto imported = import(*remote);
  ASSERT_TRUE(imported && imported->status()->ok());
  const std::vector<Segment> whole = {{0, 0, kSize}};
  std::size_t pending = 0;
  for (std::uint64_t id = 0; id < 5; ++id) {
    WorkRequest request = request_of(Operation::read, *local, *imported, whole);
    request.id = id;
    const auto posted = to_b->post(request);
    ASSERT_TRUE(posted.ok());
    if (*posted == Posted::pending) ++pending;
  }
  to_b.reset();
  // From here on nobody writes to our memory any more.
  here.fill(7);
  ASSERT_TRUE(drive({&a}, [&] { return a.events.completions.size() == pending; }));
  for (const Completion& completion : a.events.completions) {
    EXPECT_TRUE(completion.status.ok() || completion.status.error().code() == ErrorCode::closed);
  }
  a.step();
  EXPECT_EQ(a.events.completions.size(), pending);
  EXPECT_EQ(here.differs(7, 0, kSize), kSize);
}

INSTANTIATE_TEST_SUITE_P(Backends, MemoryContract, ::testing::ValuesIn(subjects()), name_of);

}  // namespace
}  // namespace stagewire::conformance
