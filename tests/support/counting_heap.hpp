// The heap of a test program that counts its calls. For one source of the program: it replaces the operators
// of all of it.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <new>
#include <string_view>

namespace stagewire::test {

/// Calls of operator new since the program began; always 0 with a sanitizer, which has operators of its own.
inline std::atomic<std::size_t> allocations_of_all{0};
inline thread_local std::size_t allocations_of_this_thread = 0;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kCountsAllocations = false;
#else
constexpr bool kCountsAllocations = true;

// ZeroMQ's threads keep the connection alive whether anything is sent or not; they are named when they begin.
inline bool is_counted() {
  thread_local const bool is_ours = [] {
    std::array<char, 16> name{};
    pthread_getname_np(pthread_self(), name.data(), name.size());
    return !std::string_view(name.data()).starts_with("ZMQbg");
  }();
  return is_ours;
}
#endif

}  // namespace stagewire::test

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Not inlined: g++ would take the pair for a mismatch.
[[gnu::noinline]] void* operator new(std::size_t size) {
  if (stagewire::test::is_counted()) {
    stagewire::test::allocations_of_all.fetch_add(1, std::memory_order_relaxed);
    ++stagewire::test::allocations_of_this_thread;
  }
  if (void* const memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
#endif
