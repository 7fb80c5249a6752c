// What is to go wrong on purpose, and how often: "over=shm,delay_ms=2,drop=0.01,seed=7".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "stagewire/result.hpp"

namespace stagewire::base {

struct FaultSpec {
  std::string over = "shm";  ///< the backend that does the work
  std::uint64_t seed = 1;
  Duration delay{0};     ///< of every message, notification and completion
  double drop = 0;       ///< probability that one of them never comes
  double duplicate = 0;  ///< that a message or notification comes twice
  double reorder = 0;    ///< that one is overtaken by the next
  double fail = 0;       ///< that a work request fails without moving a byte

  /// `invalid_argument` with the part that is wrong.
  static Result<FaultSpec> parse(std::string_view text);
};

}  // namespace stagewire::base
