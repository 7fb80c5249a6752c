// Laying one configuration over another: base_config files, platform sections.
#pragma once

#include <string>

#include "deploy/diagnostics.hpp"
#include "deploy/node.hpp"

namespace stagewire::deploy {

/// `connectors` are merged key by key, `stages` and `platforms` by stage_id, every other key is replaced.
/// Values that have not the expected shape replace as well; they are reported when they are read.
void lay_over(Node& config, const Node& overlay);

/// Applies the section `platforms.NAME` and removes all sections. An unknown name is an error, a missing
/// section a note; a stage that the file has not is skipped with a warning. Unused sections are checked for
/// unknown keys.
void apply_platform(Node& config, const std::string& name, Diagnostics& diagnostics);

/// Two entries of a list of stages with one stage_id are an error: merging would hide one of them.
void check_unique_stages(const Node& stages, const std::string& path, Diagnostics& diagnostics);

}  // namespace stagewire::deploy
