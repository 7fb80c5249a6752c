// Tests of the rdma backend over simulated verbs: the conformance suite, too.
#include <gtest/gtest.h>

#include <cstdlib>

int main(int argc, char** argv) {
  // Before anything asks for the backend; the first to do so opens the library for the whole process.
  if (::setenv("STAGEWIRE_IBVERBS", FAKE_VERBS_LIBRARY, 1) != 0) return 2;
  GTEST_FLAG_SET(filter,
                 "*rdma*:Verbs.*:Mori.*:MoriEdge.*:FakeVerbs*");  // other backends are tested elsewhere
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
