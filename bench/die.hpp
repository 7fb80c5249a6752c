// How a bench ends that cannot go on.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "stagewire/result.hpp"

namespace stagewire::bench {

/// Ends the program at once, with a message and status 1. Without destructors: the library's threads are
/// running, and the other process sees its socket close.
[[noreturn]] inline void die(const std::string& what) {
  std::fprintf(stderr, "stagewire bench: %s\n", what.c_str());
  std::_Exit(1);
}

inline void check(const Status& status) {
  if (!status) die(status.error().to_string());
}

template <typename T>
T checked(Result<T> result) {
  if (!result) die(result.error().to_string());
  return std::move(*result);
}

}  // namespace stagewire::bench
