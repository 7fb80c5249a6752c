#include "topology/numa.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/temp_dir.hpp"

namespace stagewire::topology {
namespace {

class Numa : public ::testing::Test {
 protected:
  void file(const std::string& path, const std::string& text) {
    const std::string whole = dir_.file(path);
    std::filesystem::create_directories(std::filesystem::path(whole).parent_path());
    std::ofstream(whole) << text;
  }
  test::TempDir dir_;
};

TEST_F(Numa, a_device_has_the_node_of_its_slot) {
  file("sys/class/infiniband/mlx5_0/device/numa_node", "1\n");
  file("sys/class/infiniband/mlx5_1/device/numa_node", "-1\n");
  file("sys/class/infiniband/mlx5_2/device/numa_node", "nonsense\n");
  EXPECT_EQ(node_of_rdma_device("mlx5_0", dir_.path().string()), 1);
  EXPECT_EQ(node_of_rdma_device("mlx5_1", dir_.path().string()), std::nullopt);
  EXPECT_EQ(node_of_rdma_device("mlx5_2", dir_.path().string()), std::nullopt);
  EXPECT_EQ(node_of_rdma_device("rxe0", dir_.path().string()), std::nullopt);
}

TEST_F(Numa, distances_are_the_firmware_s) {
  file("sys/devices/system/node/node0/distance", "10 21 31\n");
  EXPECT_EQ(node_distance(0, 0, dir_.path().string()), 10);
  EXPECT_EQ(node_distance(0, 2, dir_.path().string()), 31);
  EXPECT_EQ(node_distance(0, 3, dir_.path().string()), std::nullopt);
  EXPECT_EQ(node_distance(0, -1, dir_.path().string()), std::nullopt);
  EXPECT_EQ(node_distance(7, 0, dir_.path().string()), std::nullopt);
}

TEST_F(Numa, this_thread_runs_somewhere) {
  const auto node = current_node();
  ASSERT_TRUE(node.has_value());
  EXPECT_GE(*node, 0);
}

}  // namespace
}  // namespace stagewire::topology
