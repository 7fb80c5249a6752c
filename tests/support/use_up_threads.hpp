// A process that gets no thread any more, for the children of death tests.
#pragma once

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace stagewire::test {

/// Sanitizers need the address space that use_up_threads() takes away.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kCanUseUpThreads = false;
#else
inline constexpr bool kCanUseUpThreads = true;
#endif

/// With no address space left for a stack, the system refuses threads as it does at its other limits. The
/// stacks of threads that have ended, which would be used again, go to threads that do nothing. The process
/// has to end with std::_Exit().
inline void use_up_threads() {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  constexpr std::uint64_t kForTheHeap = 1 << 20;
  const rlim_t size = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) + kForTheHeap;
  const rlimit limit{size, size};
  ::setrlimit(RLIMIT_AS, &limit);
  const auto wait_for_ever = [](void*) -> void* {
    for (;;) ::pause();
  };
  pthread_t thread{};
  while (::pthread_create(&thread, nullptr, wait_for_ever, nullptr) == 0) {
  }
}

/// Prints the error of a Status or Result and ends the process with status 3; with 0 when there is none.
template <typename Result>
[[noreturn]] void exit_with(const Result& result) {
  std::fputs(result.ok() ? "there is no error" : result.error().to_string().c_str(), stderr);
  std::_Exit(result.ok() ? 0 : 3);
}

}  // namespace stagewire::test
