#include "pipeline/memory_check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stagewire::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::uint64_t MiB = 1ULL << 20U;

StagePlan stage_with(int stage_id, std::uint64_t pool) {
  StagePlan stage;
  stage.stage_id = stage_id;
  stage.connector = ConnectorConfig{};
  stage.connector->memory_pool_size = pool;
  return stage;
}

TEST(MemoryCheck, R15_pools_that_fit_one_by_one_but_not_together_are_refused_with_the_sum_and_the_parts) {
  const StagePlan first = stage_with(0, 512 * MiB);
  const StagePlan second = stage_with(7, 400 * MiB);
  const Status status = check_memory({&first, &second}, {900 * MiB, "memory.max of /sys/fs/cgroup/x"});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), ErrorCode::exhausted);
  EXPECT_THAT(status.error().message(),
              AllOf(HasSubstr("944 MiB together"), HasSubstr("512 MiB for stage 0, 400 MiB for stage 7"),
                    HasSubstr("only 900 MiB"), HasSubstr("memory.max of /sys/fs/cgroup/x")));
  EXPECT_TRUE(check_memory({&first, &second}, {1024 * MiB, ""}).ok());
  EXPECT_TRUE(check_memory({&first, &second}, {}).ok()) << "nobody knows what is there";
}

TEST(MemoryCheck, sums_beyond_64_bits_are_too_much) {
  const StagePlan huge = stage_with(0, UINT64_MAX / 2);
  EXPECT_FALSE(check_memory({&huge, &huge, &huge}, {64 * MiB, ""}).ok());
}

}  // namespace
}  // namespace stagewire::pipeline
