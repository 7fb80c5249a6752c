// What is to go wrong, and how often: "over=shm,delay_ms=2,drop=0.01,seed=7".
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "stagewire/result.hpp"

namespace stagewire::backends::fault {

struct FaultSpec {
  std::string over = "shm";  ///< the backend that does the work
  std::uint64_t seed = 1;
  base::Duration delay{0};  ///< of every message, notification and completion
  double drop = 0;          ///< probability that one of them never comes
  double duplicate = 0;     ///< that a message or notification comes twice
  double reorder = 0;       ///< that one is overtaken by the next
  double fail = 0;          ///< that a work request fails without moving a byte

  /// `invalid_argument` with the part that is wrong.
  static Result<FaultSpec> parse(std::string_view text);
};

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
