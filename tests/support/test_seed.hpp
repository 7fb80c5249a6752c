// The seed of random tests: printed, and taken from STAGEWIRE_SEED to replay a failure.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>

namespace stagewire::test {

inline std::uint64_t test_seed() {
  const char* const wanted = std::getenv("STAGEWIRE_SEED");
  const std::uint64_t seed = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : std::random_device{}();
  std::cout << "STAGEWIRE_SEED=" << seed << '\n';
  return seed;
}

}  // namespace stagewire::test
