// What moves the bytes: backend_type and memory_pool_device against what this build and machine have.
#pragma once

#include <string>
#include <vector>

#include "deploy/connectors.hpp"
#include "deploy/diagnostics.hpp"
#include "stagewire/engine.hpp"

namespace stagewire::deploy {

/// "shm (backend_type auto: the best that both ends have)"; reports and returns "" when it cannot be had.
std::string choose_route(const ConnectorSpec& spec, const std::vector<BackendReport>& backends,
                         Diagnostics& diagnostics);

}  // namespace stagewire::deploy
