// After warm-up, posting a transfer allocates nothing.
#include "conformance/contract.hpp"
#include "support/counting_heap.hpp"

namespace stagewire::rdma_test {
namespace {

using conformance::drive;
using conformance::Memory;
using conformance::Side;

TEST(VerbsPosting, allocates_nothing) {
  if (!conformance::has_rdma()) GTEST_SKIP() << "needs an RDMA device, as scripts/rdma-vm has";
  if (!test::kCountsAllocations) GTEST_SKIP() << "nothing counts the allocations of a build with a sanitizer";
  const conformance::Subject rdma{"rdma", "rdma", "", true};
  Side here(rdma);
  Side there(rdma);
  const auto endpoint = here.connect(there);
  const Memory local_memory(1 << 20);
  const Memory remote_memory(1 << 20);
  const auto local = here.add(local_memory.region());
  const auto remote = there.add(remote_memory.region(), Access::remote_read_write);
  ASSERT_TRUE(drive({&here, &there}, [&] { return endpoint->status().has_value(); }));
  const auto imported = endpoint->import(remote->remote_key());
  ASSERT_TRUE(imported.ok());
  ASSERT_TRUE(drive({&here, &there}, [&] { return (*imported)->status().has_value(); }));

  constexpr std::size_t kAtOnce = 32;
  const std::vector<Segment> segments = {{0, 0, 4096}, {8192, 4096, 4096}, {65536, 65536, 100'000}};
  std::size_t counted = 0;
  for (int round = 0; round < 20; ++round) {
    counted = 0;
    here.events.completions.clear();
    for (std::size_t i = 0; i < kAtOnce; ++i) {
      WorkRequest request = conformance::request_of(i % 2 == 0 ? Operation::write : Operation::read, *local,
                                                    **imported, segments, i);
      if (i % 4 == 0) request.notification = 7;
      const std::size_t before = test::allocations_of_this_thread;
      const auto posted = endpoint->post(request);
      counted += test::allocations_of_this_thread - before;
      ASSERT_TRUE(posted.ok() && *posted == Posted::pending);
    }
    ASSERT_TRUE(drive({&here, &there}, [&] { return here.events.completions.size() == kAtOnce; }));
  }
  EXPECT_EQ(counted, 0U) << "by the last " << kAtOnce << " postings";
}

}  // namespace
}  // namespace stagewire::rdma_test
