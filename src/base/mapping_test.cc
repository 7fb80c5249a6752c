#include "base/mapping.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <utility>

#include "base/unique_fd.hpp"

namespace stagewire::base {
namespace {

constexpr std::size_t kMiB = 1 << 20;

UniqueFd make_file(std::size_t size) {
  UniqueFd file(memfd_create("mapping_test", MFD_CLOEXEC));
  EXPECT_TRUE(static_cast<bool>(file));
  EXPECT_EQ(ftruncate(file.get(), static_cast<off_t>(size)), 0);
  return file;
}

bool is_mapped(const std::byte* address) {
  unsigned char resident = 0;
  return mincore(const_cast<std::byte*>(address), 1, &resident) == 0;
}

TEST(Mapping, shows_the_file_from_its_offset_on_to_all_who_map_it) {
  const UniqueFd file = make_file(8 * kMiB);
  const auto whole = Mapping::shared(file.get(), 0, 8 * kMiB, MapAccess::read_write);
  const auto part = Mapping::shared(file.get(), 4096, 4096, MapAccess::read_only);
  ASSERT_TRUE(whole.ok() && part.ok());
  whole->bytes()[4096 + 17] = std::byte{5};
  EXPECT_EQ(part->bytes()[17], std::byte{5});
  EXPECT_EQ(part->bytes().size(), 4096U);
}

TEST(Mapping, big_ones_begin_where_a_huge_page_can) {
  const UniqueFd file = make_file(16 * kMiB);
  for (int i = 0; i < 8; ++i) {
    const auto mapping = Mapping::shared(file.get(), 0, 4 * kMiB + 4096, MapAccess::read_only);
    ASSERT_TRUE(mapping.ok());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(mapping->bytes().data()) % Mapping::kHugePage, 0U);
  }
}

// One that fails half-way (here: no huge pages are left for it) leaves alone what another thread has mapped.
TEST(Mapping, R08_one_that_fails_takes_no_memory_of_others_away) {
  constexpr std::size_t kSize = 8 * kMiB;
  const UniqueFd file(memfd_create("mapping_test", MFD_CLOEXEC | MFD_HUGETLB));
  if (!file || ftruncate(file.get(), static_cast<off_t>(kSize)) != 0) GTEST_SKIP() << "no hugetlbfs here";
  std::atomic<bool> done{false};
  std::thread other([&] {
    while (!done) {
      void* const memory =
          mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      ASSERT_NE(memory, MAP_FAILED);
      for (int round = 0; round < 20; ++round) {
        for (std::size_t offset = 0; offset < kSize; offset += kMiB) static_cast<char*>(memory)[offset] = 1;
      }
      munmap(memory, kSize);
    }
  });
  for (int i = 0; i < 5000; ++i) {
    static_cast<void>(Mapping::shared(file.get(), 0, kSize, MapAccess::read_write));
  }
  done = true;
  other.join();
}

TEST(Mapping, is_gone_when_its_owner_is_and_moves_with_it) {
  const UniqueFd file = make_file(4 * kMiB);
  const std::byte* address = nullptr;
  {
    auto mapping = Mapping::shared(file.get(), 0, 4 * kMiB, MapAccess::read_write);
    ASSERT_TRUE(mapping.ok());
    address = mapping->bytes().data();
    Mapping owner;
    EXPECT_FALSE(owner);
    owner = *std::move(mapping);
    EXPECT_TRUE(owner);
    EXPECT_TRUE(is_mapped(address));
    const Mapping last(std::move(owner));
    EXPECT_EQ(last.bytes().data(), address);
  }
  EXPECT_FALSE(is_mapped(address));
  EXPECT_FALSE(is_mapped(address + 4 * kMiB - 4096));
}

TEST(MappingDeathTest, a_read_only_one_cannot_be_written) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const UniqueFd file = make_file(4096);
  const auto mapping = Mapping::shared(file.get(), 0, 4096, MapAccess::read_only);
  ASSERT_TRUE(mapping.ok());
  EXPECT_DEATH(*const_cast<volatile std::byte*>(mapping->bytes().data()) = std::byte{1}, "");
}

TEST(Mapping, what_cannot_be_mapped_is_refused) {
  const UniqueFd file = make_file(8192);
  const auto refused = [&](int fd, std::uint64_t offset, std::size_t size) {
    return Mapping::shared(fd, offset, size, MapAccess::read_only).error().code();
  };
  EXPECT_EQ(refused(file.get(), 0, 0), ErrorCode::invalid_argument);
  EXPECT_EQ(refused(file.get(), 0, 100), ErrorCode::invalid_argument);
  EXPECT_EQ(refused(file.get(), 100, 4096), ErrorCode::invalid_argument);
  EXPECT_EQ(refused(file.get(), UINT64_MAX - 4095, 4096), ErrorCode::invalid_argument);
  EXPECT_EQ(refused(file.get(), 0, SIZE_MAX - 4095), ErrorCode::invalid_argument);
  EXPECT_EQ(refused(file.get(), 0, std::size_t{1} << 60), ErrorCode::exhausted);
  EXPECT_EQ(refused(-1, 0, 4096), ErrorCode::failed);
  EXPECT_EQ(refused(-1, 0, 4 * kMiB), ErrorCode::failed);
}

}  // namespace
}  // namespace stagewire::base
