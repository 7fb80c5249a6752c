// Files to one tree: reads a file and the files it is based on, and lays them over each other.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "deploy/diagnostics.hpp"
#include "deploy/node.hpp"
#include "deploy/override.hpp"

namespace stagewire::deploy {

constexpr std::size_t kMaxBaseFiles = 16;  ///< a chain of base_config longer than this is refused

/// Blocks on the file system. `early` overrides are put into the file before its base is read.
/// nullopt after reporting why there is no tree.
std::optional<Node> read_with_bases(const std::string& file, const std::vector<Override>& early,
                                    Diagnostics& diagnostics);
/// The same for text; its base_config is relative to the working directory.
std::optional<Node> read_with_bases(std::string_view text, const std::string& name,
                                    const std::vector<Override>& early, Diagnostics& diagnostics);

/// The file and those that it is based on, as canonical paths; as far as they can be read. A base that only
/// an override names is not among them.
std::vector<std::string> files_of(const std::string& file);

}  // namespace stagewire::deploy
