#include "memory/host_slab.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace stagewire::memory {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kMiB = 1 << 20;
constexpr std::size_t kGiB = std::size_t{1} << 30;

std::unique_ptr<HostSlab> make_slab(std::size_t size, const HostSlabOptions& options = {}) {
  auto slab = HostSlab::create(size, options);
  EXPECT_TRUE(slab.ok()) << slab.error().to_string();
  return *std::move(slab);
}

/// Pages of the slab that exist, from the file itself.
std::size_t existing_bytes(const HostSlab& slab) {
  struct stat status {};
  EXPECT_EQ(fstat(slab.fd(), &status), 0);
  return static_cast<std::size_t>(status.st_blocks) * 512;
}

TEST(HostSlab, is_zeroed_writable_and_seen_by_whoever_maps_the_file) {
  const auto slab = make_slab(3 * kMiB);
  ASSERT_EQ(slab->bytes().size(), 3 * kMiB);
  EXPECT_EQ(slab->bytes().back(), std::byte{0});
  slab->bytes().back() = std::byte{7};
  const auto other = base::Mapping::shared(slab->fd(), 0, 3 * kMiB, base::MapAccess::read_only);
  ASSERT_TRUE(other.ok()) << other.error().to_string();
  EXPECT_EQ(other->bytes().back(), std::byte{7});
  EXPECT_NE(other->bytes().data(), slab->bytes().data());
}

TEST(HostSlab, size_is_rounded_up_to_pages) {
  EXPECT_EQ(make_slab(1)->bytes().size(), 4096U);
  EXPECT_EQ(make_slab(4097)->bytes().size(), 8192U);
}

TEST(HostSlab, R08_has_no_name_and_is_not_inherited) {
  const auto slab = make_slab(4096);
  struct stat status {};
  ASSERT_EQ(fstat(slab->fd(), &status), 0);
  EXPECT_EQ(status.st_nlink, 0U);
  EXPECT_NE(fcntl(slab->fd(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(HostSlab, the_file_is_sealed_against_any_change_of_size) {
  const auto slab = make_slab(8192);
  EXPECT_EQ(fcntl(slab->fd(), F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  EXPECT_NE(ftruncate(slab->fd(), 4096), 0);
  EXPECT_EQ(errno, EPERM);
  EXPECT_NE(ftruncate(slab->fd(), 16384), 0);
  EXPECT_EQ(errno, EPERM);
}

TEST(HostSlab, prefault_takes_every_page_and_without_it_none) {
  EXPECT_EQ(existing_bytes(*make_slab(8 * kMiB, {.huge_pages = false})), 8 * kMiB);
  EXPECT_EQ(existing_bytes(*make_slab(8 * kMiB)), 8 * kMiB);
  EXPECT_EQ(existing_bytes(*make_slab(8 * kMiB + 4096)), 8 * kMiB + 4096);
  const auto sparse = make_slab(8 * kMiB, {.huge_pages = false, .prefault = false});
  EXPECT_EQ(existing_bytes(*sparse), 0U);
  EXPECT_EQ(sparse->page_kind(), "pages on demand");
}

TEST(HostSlab, page_kind_says_what_it_got) {
  EXPECT_EQ(make_slab(2 * kMiB, {.huge_pages = false})->page_kind(), "4 KiB pages");
  const auto slab = make_slab(4 * kMiB);
  if (slab->page_kind() == "4 KiB pages") GTEST_SKIP() << "no huge pages on this machine now";
  EXPECT_THAT(slab->page_kind(), HasSubstr("2 MiB pages"));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(slab->bytes().data()) % (2 * kMiB), 0U);
}

TEST(HostSlab, R19_works_beyond_4_GiB) {
  const auto slab = make_slab(5 * kGiB, {.huge_pages = false, .prefault = false});
  ASSERT_EQ(slab->bytes().size(), 5 * kGiB);
  const std::size_t markers[] = {0, 4 * kGiB - 1, 4 * kGiB, 4 * kGiB + 1, 5 * kGiB - 1};
  unsigned char value = 1;
  for (const std::size_t at : markers) slab->bytes()[at] = std::byte{value++};
  const auto other =
      base::Mapping::shared(slab->fd(), 4 * kGiB - 4096, kGiB + 4096, base::MapAccess::read_only);
  ASSERT_TRUE(other.ok()) << other.error().to_string();
  EXPECT_EQ(other->bytes()[4095], std::byte{2});
  EXPECT_EQ(other->bytes()[4096], std::byte{3});
  EXPECT_EQ(other->bytes()[4097], std::byte{4});
  EXPECT_EQ(other->bytes().back(), std::byte{5});
  EXPECT_EQ(slab->bytes()[0], std::byte{1});
  EXPECT_LE(existing_bytes(*slab), 64 * kMiB);
}

TEST(HostSlab, R24_more_than_the_machine_has_is_refused_with_numbers_and_advice) {
  const auto slab = HostSlab::create(std::size_t{1} << 46);
  ASSERT_FALSE(slab.ok());
  EXPECT_EQ(slab.error().code(), ErrorCode::exhausted);
  EXPECT_THAT(slab.error().message(), HasSubstr("64 TiB (70368744177664 bytes)"));
  EXPECT_THAT(slab.error().message(), HasSubstr("memory_pool_size"));
}

TEST(HostSlab, sizes_that_make_no_sense_are_refused) {
  const auto nothing = HostSlab::create(0);
  ASSERT_FALSE(nothing.ok());
  EXPECT_EQ(nothing.error().code(), ErrorCode::invalid_argument);
  const auto all = HostSlab::create(SIZE_MAX);
  ASSERT_FALSE(all.ok());
  EXPECT_EQ(all.error().code(), ErrorCode::too_large);
}

/// Lowers a limit of this process for as long as it lives.
class LoweredLimit {
 public:
  LoweredLimit(__rlimit_resource resource, rlim_t value) : resource_(resource) {
    EXPECT_EQ(getrlimit(resource_, &before_), 0);
    rlimit lowered = before_;
    lowered.rlim_cur = value;
    EXPECT_EQ(setrlimit(resource_, &lowered), 0);
  }
  LoweredLimit(const LoweredLimit&) = delete;
  LoweredLimit& operator=(const LoweredLimit&) = delete;
  ~LoweredLimit() { EXPECT_EQ(setrlimit(resource_, &before_), 0); }

 private:
  __rlimit_resource resource_;
  rlimit before_{};
};

TEST(HostSlab, R24_a_file_size_limit_is_named_and_does_not_end_the_process) {
  const LoweredLimit limit(RLIMIT_FSIZE, kMiB);
  const auto slab = HostSlab::create(2 * kMiB);
  ASSERT_FALSE(slab.ok());
  EXPECT_EQ(slab.error().code(), ErrorCode::too_large);
  EXPECT_THAT(slab.error().message(), HasSubstr("ulimit -f"));
}

TEST(HostSlab, R24_an_address_space_limit_is_named) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer needs the address space itself";
#endif
  const LoweredLimit limit(RLIMIT_AS, kGiB);
  const auto slab = HostSlab::create(2 * kGiB, {.prefault = false});
  ASSERT_FALSE(slab.ok());
  EXPECT_EQ(slab.error().code(), ErrorCode::exhausted);
  EXPECT_THAT(slab.error().message(), HasSubstr("limited to 1 GiB (ulimit -v)"));
}

TEST(HostSlab, R24_a_descriptor_limit_is_named) {
  const LoweredLimit limit(RLIMIT_NOFILE, 3);
  const auto slab = HostSlab::create(4096);
  ASSERT_FALSE(slab.ok());
  EXPECT_EQ(slab.error().code(), ErrorCode::exhausted);
  EXPECT_THAT(slab.error().message(), HasSubstr("ulimit -n"));
}

}  // namespace
}  // namespace stagewire::memory
