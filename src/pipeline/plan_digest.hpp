// Whether two nodes of one run mean the same thing.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "stagewire/pipeline.hpp"

namespace stagewire::pipeline {

/// By topic ("stage 1", "edges") a digest of what the nodes must agree on. What belongs to one host (its
/// addresses, ports, devices, memory, environment) may differ, and is not in it; nor is a secret, only
/// whether there is one.
std::map<std::string, std::string> plan_digest(const DeployPlan& plan);

/// The options of a replay by their names on the command line ("--requests"), as text. The trace by its
/// contents; an error when it cannot be read.
Result<std::map<std::string, std::string>> replay_terms(const PipelineOptions& options);

/// Of the contents of a trace; empty when `file` is.
Result<std::string> trace_digest(const std::string& file);

/// What differs, in words: "--requests is 4 here and 8 at the master". `own` is the side that speaks; names
/// that `other` has not are passed over. Empty when nothing does.
std::string difference(const std::map<std::string, std::string>& master,
                       const std::map<std::string, std::string>& node);

}  // namespace stagewire::pipeline
