#include "backend/builtin_backends.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "stagewire/engine.hpp"

namespace stagewire::backend {
namespace {

TEST(BuiltinBackends, says_why_one_cannot_be_had) {
  EXPECT_EQ(create_backend("infiniband", {}).error().code(), ErrorCode::invalid_argument);
  for (const char* name : {"xgmi", "cuda_ipc", "ucx"}) {
    const auto created = create_backend(name, {});
    ASSERT_FALSE(created.ok()) << name;
    EXPECT_EQ(created.error().code(), ErrorCode::unsupported);
    EXPECT_NE(created.error().message().find(name), std::string::npos);
  }
}

TEST(BuiltinBackends, R24_rdma_says_what_is_missing_where_there_is_no_device) {
  const auto created = create_backend("rdma", {});
  if (created) GTEST_SKIP() << "this machine has an RDMA device";
  EXPECT_EQ(created.error().code(), ErrorCode::unsupported);
  EXPECT_EQ(created.error().message().rfind("backend rdma: ", 0), 0U);
  EXPECT_NE(created.error().message().find("apt-get install ibverbs-providers"), std::string::npos)
      << created.error().message();
}

TEST(BuiltinBackends, passes_a_factory_s_reason_on) {
  BackendOptions options;
  options.payload_slots = 1 << 20;
  const auto created = create_backend("shm", options);
  ASSERT_FALSE(created.ok());
  EXPECT_EQ(created.error().code(), ErrorCode::invalid_argument);
  EXPECT_EQ(created.error().message().rfind("backend shm: ", 0), 0U);
}

TEST(BuiltinBackends, R24_every_known_one_is_probed_with_a_reason) {
  const auto reports = probe_backends();
  EXPECT_EQ(reports.size(), builtin_backends().size());
  for (const BackendReport& report : reports) EXPECT_FALSE(report.reason.empty()) << report.name;
  const auto shm =
      std::find_if(reports.begin(), reports.end(), [](const auto& r) { return r.name == "shm"; });
  ASSERT_NE(shm, reports.end());
  EXPECT_TRUE(shm->usable) << shm->reason;
}

}  // namespace
}  // namespace stagewire::backend
