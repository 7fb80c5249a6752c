// Whether the pools of all stages together fit into the memory that there is.
#pragma once

#include <vector>

#include "memory/available_memory.hpp"
#include "stagewire/deploy.hpp"
#include "stagewire/result.hpp"

namespace stagewire::pipeline {

/// Each stage looks for itself whether its pool fits, at the same time as the others: together they would
/// wake the kernel's out-of-memory killer. `exhausted` with the sum, its parts and what is there.
Status check_memory(const std::vector<const StagePlan*>& stages, const memory::AvailableMemory& available);

}  // namespace stagewire::pipeline
