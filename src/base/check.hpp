// A broken invariant is a bug: it aborts with file and line. Bad input never gets here.
#pragma once

namespace stagewire::base {

[[noreturn]] void check_failed(const char* expression, const char* file, int line, const char* why);

}  // namespace stagewire::base

#define STAGEWIRE_CHECK(condition, why)  \
  (static_cast<bool>(condition) ? void() \
                                : ::stagewire::base::check_failed(#condition, __FILE__, __LINE__, why))
