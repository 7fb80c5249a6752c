#include "base/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace stagewire::base {

void check_failed(const char* expression, const char* file, int line, const char* why) {
  std::fprintf(stderr, "stagewire: bug at %s:%d: %s (%s)\n", file, line, why, expression);
  std::abort();
}

}  // namespace stagewire::base
