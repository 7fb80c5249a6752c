#include "memory/prefault.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "memory/host_slab.hpp"

namespace stagewire::memory {
namespace {

constexpr std::size_t kMiB = 1 << 20;

std::unique_ptr<HostSlab> make_empty(std::size_t size) {
  auto slab = HostSlab::create(size, {.huge_pages = false, .prefault = false});
  EXPECT_TRUE(slab.ok()) << slab.error().to_string();
  return *std::move(slab);
}

std::size_t existing_bytes(const HostSlab& slab) {
  struct stat status {};
  EXPECT_EQ(fstat(slab.fd(), &status), 0);
  return static_cast<std::size_t>(status.st_blocks) * 512;
}

/// Each look at it takes time.
class BusyClock final : public base::Clock {
 public:
  explicit BusyClock(base::Duration step) : step_(step) {}
  base::TimePoint now() const override { return now_ += step_; }

 private:
  const base::Duration step_;
  mutable base::TimePoint now_{std::chrono::hours(1)};
};

std::vector<std::pair<std::size_t, std::size_t>> progress_calls(base::Duration step) {
  const auto slab = make_empty(64 * kMiB);
  std::vector<std::pair<std::size_t, std::size_t>> calls;
  const BusyClock clock(step);
  const Status status = prefault(
      slab->bytes(), false, [&](std::size_t done, std::size_t total) { calls.emplace_back(done, total); },
      clock);
  EXPECT_TRUE(status.ok());
  return calls;
}

TEST(Prefault, says_nothing_when_it_takes_less_than_a_second) {
  EXPECT_TRUE(progress_calls(std::chrono::milliseconds(10)).empty());
}

TEST(Prefault, says_how_far_it_is_when_it_takes_longer_and_ends_with_all) {
  const auto calls = progress_calls(std::chrono::milliseconds(400));
  ASSERT_GE(calls.size(), 2U);
  EXPECT_LT(calls.front().first, 64 * kMiB);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(calls[i].second, 64 * kMiB);
    if (i > 0) {
      EXPECT_GT(calls[i].first, calls[i - 1].first);
    }
  }
  EXPECT_EQ(calls.back().first, 64 * kMiB);
}

TEST(Prefault, contents_stay) {
  const auto slab = make_empty(6 * kMiB);
  for (std::size_t at = 0; at < 6 * kMiB; at += 1000)
    slab->bytes()[at] = std::byte{static_cast<unsigned char>(at)};
  for (const bool collapse_pages : {false, true}) {
    ASSERT_TRUE(prefault(slab->bytes(), collapse_pages, {}).ok());
    for (std::size_t at = 0; at < 6 * kMiB; at += 1000) {
      ASSERT_EQ(slab->bytes()[at], std::byte{static_cast<unsigned char>(at)}) << at;
    }
  }
}

TEST(Prefault, touching_does_the_same_on_kernels_that_cannot_populate) {
  const auto slab = make_empty(3 * kMiB);
  slab->bytes()[kMiB] = std::byte{9};
  touch_pages(slab->bytes());
  EXPECT_EQ(existing_bytes(*slab), 3 * kMiB);
  EXPECT_EQ(slab->bytes()[kMiB], std::byte{9});
  EXPECT_EQ(slab->bytes()[0], std::byte{0});
}

TEST(Prefault, memory_that_is_no_huge_page_is_not_called_one) {
  const auto slab = make_empty(4 * kMiB);
  ASSERT_TRUE(prefault(slab->bytes(), false, {}).ok());
  EXPECT_EQ(huge_page_bytes(slab->bytes()), 0U);
  EXPECT_EQ(huge_page_bytes(slab->bytes().subspan(4096)), 0U);  // no mapping begins there
}

}  // namespace
}  // namespace stagewire::memory
