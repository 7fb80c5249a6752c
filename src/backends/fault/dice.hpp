// Which of the events a fault spec hits.
#pragma once

#include <cstdint>
#include <random>

#include "base/fault_spec.hpp"

namespace stagewire::backends::fault {

using base::FaultSpec;

/// What happens to one event.
struct Fate {
  bool drop = false;
  bool duplicate = false;
  bool reorder = false;
};

/// The fates of one kind of events, the same sequence for the same seed. Not thread-safe.
class Dice {
 public:
  Dice(const FaultSpec& spec, std::uint64_t kind) : spec_(spec), random_(spec.seed * 8 + kind) {}
  Fate next() { return {hits(spec_.drop), hits(spec_.duplicate), hits(spec_.reorder)}; }
  bool fails() { return hits(spec_.fail); }

 private:
  // Always draws, so that one probability does not shift what the others hit.
  bool hits(double probability) {
    return std::uniform_real_distribution<double>(0, 1)(random_) < probability;
  }

  const FaultSpec spec_;
  std::mt19937_64 random_;
};

}  // namespace stagewire::backends::fault
