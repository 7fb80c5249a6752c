#include "backends/rdma/settings.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace stagewire::backends::rdma {
namespace {

/// Sets a variable of the environment for as long as it lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* const name_;
};

Result<Settings> settings(std::map<std::string, std::string, std::less<>> given) {
  BackendOptions options;
  options.settings = std::move(given);
  return Settings::from(options);
}

TEST(RdmaSettings, a_list_of_devices_orders_them) {
  const auto filter = DeviceFilter::parse("mlx5_1, mlx5_0:2");
  ASSERT_TRUE(filter.ok());
  EXPECT_EQ(filter->rank("mlx5_1", 1), 0U);
  EXPECT_EQ(filter->rank("mlx5_0", 2), 1U);
  EXPECT_FALSE(filter->rank("mlx5_0", 1));
  EXPECT_FALSE(filter->rank("mlx5_10", 1));
}

TEST(RdmaSettings, a_caret_excludes) {
  const auto filter = DeviceFilter::parse("^mlx5_1,mlx5_2");
  ASSERT_TRUE(filter.ok());
  EXPECT_FALSE(filter->rank("mlx5_1", 1));
  EXPECT_FALSE(filter->rank("mlx5_2", 2));
  EXPECT_TRUE(filter->rank("mlx5_0", 1));
  EXPECT_TRUE(DeviceFilter::parse("")->rank("mlx5_0", 1));
}

TEST(RdmaSettings, an_empty_name_is_refused) {
  for (const char* wrong : {",", "mlx5_0,", "^", "a,,b", " "}) {
    EXPECT_EQ(DeviceFilter::parse(wrong).error().code(), ErrorCode::invalid_argument) << wrong;
  }
}

TEST(RdmaSettings, the_configuration_comes_before_the_environment) {
  const Variable devices("MORI_RDMA_DEVICES", "mlx5_7");
  const Variable gid("MORI_IB_GID_INDEX", "5");
  const Variable pairs("MORI_IO_QP_PER_TRANSFER", "4");
  const auto from_environment = settings({});
  ASSERT_TRUE(from_environment.ok());
  EXPECT_EQ(from_environment->devices.names, std::vector<std::string>{"mlx5_7"});
  EXPECT_EQ(from_environment->gid_index, 5);
  EXPECT_EQ(from_environment->queue_pairs, 4U);
  const auto both = settings({{"device_name", "mlx5_0"}, {"gid_index", "3"}, {"xgmi_num_streams", "64"}});
  ASSERT_TRUE(both.ok());
  EXPECT_EQ(both->devices.names, std::vector<std::string>{"mlx5_0"});
  EXPECT_EQ(both->gid_index, 3);
  EXPECT_EQ(both->queue_pairs, 4U);
}

TEST(RdmaSettings, what_is_out_of_range_is_refused_with_the_range) {
  const std::pair<const char*, const char*> wrong[] = {
      {"gid_index", "-1"},       {"gid_index", "x"},        {"qp_per_transfer", "0"},
      {"post_batch_size", "-2"}, {"service_level", "16"},   {"traffic_class", "256"},
      {"path_mtu", "1500"},      {"rdma_retry_count", "7"}, {"rdma_max_piece", "100"},
      {"path_mtu", "128"},       {"rdma_ack_timeout", "32"}};
  for (const auto& [name, value] : wrong) {
    const auto refused = settings({{name, value}});
    ASSERT_FALSE(refused.ok()) << name << " " << value;
    EXPECT_EQ(refused.error().code(), ErrorCode::invalid_argument);
    EXPECT_NE(refused.error().message().find(name), std::string::npos) << refused.error().message();
  }
}

TEST(RdmaSettings, a_batch_of_minus_one_is_the_default) {
  EXPECT_EQ(settings({{"post_batch_size", "-1"}})->post_batch, Settings().post_batch);
  EXPECT_EQ(settings({{"post_batch_size", "7"}})->post_batch, 7U);
}

}  // namespace
}  // namespace stagewire::backends::rdma
