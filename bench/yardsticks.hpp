// What our figures are held against, measured in the same run on the same machine.
#pragma once

#include <sched.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stagewire::bench {

/// CLOCK_MONOTONIC, which all processes of a host share.
double now_us();

/// Gives this process the `index`-th core that it may use, where there are two: each of the two processes has
/// a core of its own, so that neither waits for the other's to be free.
void take_core(int index);

/// Undoes take_core() for this thread as long as it lives, so that a process which is started meanwhile may
/// take a core of its own.
class AllCores {
 public:
  AllCores();
  ~AllCores();
  AllCores(const AllCores&) = delete;
  AllCores& operator=(const AllCores&) = delete;

 private:
  cpu_set_t before_;
};

/// One-way times, microseconds, between two processes: one sleeps on a futex and is woken.
std::vector<double> futex_one_way(int count);
/// The same, both spinning on a word that the other writes.
std::vector<double> spin_one_way(int count);

/// memcpy between two shared mappings with huge pages where there are any, walking through `sources` buffers
/// of `size` bytes into `targets`; GB/s (1e9 bytes). Exits the program when it cannot be measured.
class CopyYardstick {
 public:
  CopyYardstick(std::size_t size, std::size_t sources, std::size_t targets);
  ~CopyYardstick();
  CopyYardstick(const CopyYardstick&) = delete;
  CopyYardstick& operator=(const CopyYardstick&) = delete;
  double gb_per_s(int count);

 private:
  void copy(std::size_t count) const;

  std::size_t size_;
  std::size_t sources_;
  std::size_t targets_;
  std::byte* source_;
  std::byte* target_;
};

}  // namespace stagewire::bench
