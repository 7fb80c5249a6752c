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

struct SourceTree {
  Node root;
  std::vector<std::string> files;  ///< that were read, as canonical paths
};

/// Blocks on the file system. `early` overrides are put into the file before its base is read.
/// nullopt after reporting why there is no tree.
std::optional<SourceTree> read_with_bases(const std::string& file, const std::vector<Override>& early,
                                          Diagnostics& diagnostics);
/// The same for text; its base_config is relative to the working directory.
std::optional<SourceTree> read_with_bases(std::string_view text, const std::string& name,
                                          const std::vector<Override>& early, Diagnostics& diagnostics);

}  // namespace stagewire::deploy
