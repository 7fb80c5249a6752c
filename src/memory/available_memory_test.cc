#include "memory/available_memory.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "support/temp_dir.hpp"

namespace stagewire::memory {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

/// A machine's /proc and /sys in a folder.
class AvailableMemoryTest : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_.path() / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  /// 1000 MiB left on the machine.
  void write_machine(const std::string& groups) {
    write("proc/meminfo", "MemTotal:  4096000 kB\nMemFree:  1 kB\nMemAvailable:  1024000 kB\n");
    write("proc/self/cgroup", groups);
  }
  void write_version2(const std::string& group, const std::string& limit, std::uint64_t used,
                      std::uint64_t cache) {
    write("sys/fs/cgroup" + group + "/memory.max", limit + "\n");
    write("sys/fs/cgroup" + group + "/memory.current", std::to_string(used) + "\n");
    write("sys/fs/cgroup" + group + "/memory.stat",
          "anon 5\nactive_file 9\ninactive_file " + std::to_string(cache) + "\n");
  }
  AvailableMemory found() const { return available_memory(root_.path().string()); }

  test::TempDir root_;
};

TEST_F(AvailableMemoryTest, free_huge_pages_are_counted_apart) {
  write("proc/meminfo", "HugePages_Total:  9\nHugePages_Free:  4\nHugepagesize:  2048 kB\n");
  EXPECT_EQ(free_huge_pages(root_.path().string()), 8 * kMiB);
  write_machine("");
  EXPECT_EQ(free_huge_pages(root_.path().string()), 0U);
}

TEST_F(AvailableMemoryTest, without_groups_it_is_the_machines) {
  write_machine("");
  EXPECT_EQ(found().bytes, 1000 * kMiB);
  EXPECT_EQ(found().limit, "MemAvailable of this machine");
}

TEST_F(AvailableMemoryTest, the_tightest_group_around_the_process_counts_and_is_named) {
  write_machine("0::/outer/inner\n");
  write_version2("/outer", std::to_string(300 * kMiB), 200 * kMiB, 50 * kMiB);
  write_version2("/outer/inner", std::to_string(400 * kMiB), 100 * kMiB, 0);
  EXPECT_EQ(found().bytes, 150 * kMiB);  // the file cache can be dropped
  EXPECT_EQ(found().limit, "memory.max of /sys/fs/cgroup/outer");
}

TEST_F(AvailableMemoryTest, a_group_without_a_limit_does_not_count) {
  write_machine("0::/group\n");
  write_version2("/group", "max", 100 * kMiB, 0);
  EXPECT_EQ(found().bytes, 1000 * kMiB);
}

TEST_F(AvailableMemoryTest, in_a_container_the_root_group_counts) {
  write_machine("0::/docker/4711\n");
  write_version2("", std::to_string(64 * kMiB), 4 * kMiB, 0);
  EXPECT_EQ(found().bytes, 60 * kMiB);
}

TEST_F(AvailableMemoryTest, version_1_groups_count_too) {
  write_machine("9:name=systemd:/x\n4:memory:/group\n0::/\n");
  write("sys/fs/cgroup/memory/group/memory.limit_in_bytes", "104857600\n");
  write("sys/fs/cgroup/memory/group/memory.usage_in_bytes", "10485760\n");
  EXPECT_EQ(found().bytes, 90 * kMiB);
  EXPECT_EQ(found().limit, "memory.limit_in_bytes of /sys/fs/cgroup/memory/group");
}

TEST_F(AvailableMemoryTest, a_group_that_is_over_its_limit_leaves_nothing) {
  write_machine("0::/group\n");
  write_version2("/group", "1000", 2000, 500);
  EXPECT_EQ(found().bytes, 0U);
}

TEST_F(AvailableMemoryTest, files_that_make_no_sense_are_no_limit) {
  write("proc/meminfo", "MemAvailable: lots kB\n\nMemAvailable\n");
  write("proc/self/cgroup", "0\n::\n0:\n0::group\n7:memory\n");
  EXPECT_EQ(found().bytes, UINT64_MAX);
}

TEST(AvailableMemory, this_machine_has_some) {
  EXPECT_GT(available_memory().bytes, 0U);
  EXPECT_LT(available_memory().bytes, UINT64_MAX);
}

}  // namespace
}  // namespace stagewire::memory
