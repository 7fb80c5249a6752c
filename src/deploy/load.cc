// load_deploy() and parse_deploy(): the order in which things are read and laid over each other.

#include "deploy/environment.hpp"
#include "deploy/merge.hpp"
#include "deploy/override.hpp"
#include "deploy/plan.hpp"
#include "deploy/source_files.hpp"
#include "stagewire/deploy.hpp"

namespace stagewire {
namespace {

using deploy::Diagnostics;
using deploy::Node;
using deploy::Override;

/// Precedence, weakest first: base, file, platform, override.
std::optional<DeployPlan> plan_of(Node tree, const std::string& name, const std::vector<Override>& late,
                                  const DeployOptions& options, Diagnostics& diagnostics) {
  deploy::apply_platform(tree, options.platform, diagnostics);
  for (const Override& one : late) deploy::apply_override(tree, one, diagnostics);
  deploy::expand_tree(tree, "", diagnostics);
  const auto backends = options.backends.empty() ? probe_backends() : options.backends;
  DeployPlan plan = deploy::make_plan(tree, name, backends, diagnostics);
  if (diagnostics.has_errors()) return std::nullopt;
  return plan;
}

/// `read` gives the tree of file and bases, or nullopt after reporting.
template <typename Read>
DeployResult load(const std::string& name, const DeployOptions& options, Read read) {
  Diagnostics diagnostics;
  std::vector<Override> early;
  std::vector<Override> late;
  for (const std::string& text : options.overrides) {
    auto one = deploy::parse_override(text, diagnostics);
    if (one) (one->is_early() ? early : late).push_back(std::move(*one));
  }
  DeployResult result;
  std::optional<deploy::SourceTree> tree = read(early, diagnostics);
  if (tree) result.plan = plan_of(std::move(tree->root), name, late, options, diagnostics);
  result.diagnostics = diagnostics.sorted();
  if (result.plan) {
    result.plan->files_read = std::move(tree->files);
    result.plan->notes = result.diagnostics;
  }
  return result;
}

}  // namespace

DeployResult load_deploy(const std::string& file, const DeployOptions& options) {
  return load(file, options, [&](const std::vector<Override>& early, Diagnostics& diagnostics) {
    return deploy::read_with_bases(file, early, diagnostics);
  });
}

DeployResult parse_deploy(std::string_view text, const std::string& name, const DeployOptions& options) {
  return load(name, options, [&](const std::vector<Override>& early, Diagnostics& diagnostics) {
    return deploy::read_with_bases(text, name, early, diagnostics);
  });
}

}  // namespace stagewire
