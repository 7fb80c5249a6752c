// A deploy plan as text for people and as JSON for programs.
#pragma once

#include <string>

#include "stagewire/deploy.hpp"

namespace stagewire::cli {

std::string plan_text(const DeployPlan& plan);
/// {"ok": true, "file", "async_chunk", "pipeline", "stages", "edges", "engine_options", "diagnostics"}
std::string plan_json(const DeployPlan& plan);
/// {"ok": false, "diagnostics": [...]}
std::string failure_json(const DeployResult& result);

}  // namespace stagewire::cli
