// Counts what a test program takes from the heap. The counter stands in processors/allocation_test.cc.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>

namespace stagewire::chunk {

/// Calls of operator new since the program began.
std::size_t allocations_of_this_thread();
std::size_t allocations_of_all();

class Allocations : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers have operators of their own: nothing is counted";
#endif
  }
};

}  // namespace stagewire::chunk
