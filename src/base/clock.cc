#include "base/clock.hpp"

namespace stagewire::base {

const Clock& steady_clock() {
  static const SteadyClock clock;
  return clock;
}

}  // namespace stagewire::base
