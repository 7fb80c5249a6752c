// Percentiles of times without keeping them: a histogram of powers of two, each split in 16.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

namespace stagewire::connector {

/// Thread-safe; record() is one atomic increment. Percentiles are right within 7 %.
class LatencyHistogram {
 public:
  void record(std::uint64_t nanoseconds) {
    counts_[bucket(nanoseconds)].fetch_add(1, std::memory_order_relaxed);
  }
  /// Nanoseconds that `fraction` of the recorded times do not exceed; 0 when there are none.
  double percentile(double fraction) const {
    std::uint64_t total = 0;
    for (const auto& count : counts_) total += count.load(std::memory_order_relaxed);
    const double wanted = fraction * static_cast<double>(total);
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      seen += counts_[i].load(std::memory_order_relaxed);
      if (seen > 0 && static_cast<double>(seen) >= wanted) return upper_edge(i);
    }
    return 0;
  }

 private:
  static constexpr unsigned kSplitBits = 4;
  static constexpr std::size_t kBuckets = (64 - kSplitBits + 1) << kSplitBits;

  static std::size_t bucket(std::uint64_t value) {
    if (value < (1U << kSplitBits)) return value;
    const unsigned shift = static_cast<unsigned>(std::bit_width(value)) - kSplitBits - 1;
    return ((std::size_t{shift} + 1) << kSplitBits) +
           static_cast<std::size_t>((value >> shift) - (1U << kSplitBits));
  }
  static double upper_edge(std::size_t index) {
    if (index < (1U << kSplitBits)) return static_cast<double>(index);
    const std::size_t shift = (index >> kSplitBits) - 1;
    const std::uint64_t step = (index & ((1U << kSplitBits) - 1)) + (1U << kSplitBits) + 1;
    return static_cast<double>(step) * static_cast<double>(std::uint64_t{1} << shift);
  }

  std::array<std::atomic<std::uint64_t>, kBuckets> counts_{};
};

}  // namespace stagewire::connector
