// Whether stages on this machine can call each other at their hosts.
#pragma once

#include <vector>

#include "stagewire/deploy.hpp"
#include "stagewire/result.hpp"

namespace stagewire::pipeline {

/// Asks the kernel for a way to each host that is an address in digits; nothing is sent. `unavailable` names
/// the host: without it stages bind, call each other in vain, and end at their timeouts.
Status check_hosts(const std::vector<const StagePlan*>& stages);

}  // namespace stagewire::pipeline
