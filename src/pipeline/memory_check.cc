#include "pipeline/memory_check.hpp"

#include <algorithm>
#include <string>

#include "base/text.hpp"

namespace stagewire::pipeline {
namespace {

/// What a stage process takes beside its pool: code, stacks, buffers.
constexpr std::uint64_t kProcessSize = 16ULL << 20U;

}  // namespace

Status check_memory(const std::vector<const StagePlan*>& stages, const memory::AvailableMemory& available) {
  std::uint64_t sum = 0;
  std::string parts;
  for (const StagePlan* stage : stages) {
    const std::uint64_t pool = stage->connector ? stage->connector->memory_pool_size : 0;
    // Each is far below 2^63, but many together may not be.
    sum += std::min(pool + kProcessSize, UINT64_MAX - sum);
    parts += base::text(parts.empty() ? "" : ", ", base::size_text(pool), " for stage ", stage->stage_id);
  }
  if (sum <= available.bytes) return {};
  return base::error(
      ErrorCode::exhausted, "the stages take ", base::size_text(sum), " together (pools of ", parts, "; ",
      base::size_text(kProcessSize), " for each process), but only ", base::size_text(available.bytes),
      " can be had (", available.limit,
      "): make the pools smaller (memory_pool_size), end what uses the memory, or raise that limit");
}

}  // namespace stagewire::pipeline
