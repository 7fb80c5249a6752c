#include "pipeline/node_registry.hpp"

#include <algorithm>
#include <utility>

#include "base/printable.hpp"
#include "base/text.hpp"
#include "pipeline/plan_digest.hpp"

namespace stagewire::pipeline {
namespace {

bool has(const std::vector<int>& stages, int stage) {
  return std::find(stages.begin(), stages.end(), stage) != stages.end();
}

bool is_same_node(const Hello& a, const Hello& b) {
  return a.instance == b.instance;
}

}  // namespace

NodeRegistry::NodeRegistry(Hello own, std::vector<int> stages)
    : own_(std::move(own)), stages_(std::move(stages)) {}

Status NodeRegistry::admit(const std::string& connection, const Hello& hello) {
  if (Status status = check_agreement(hello); !status.ok()) return status;
  if (Status status = check_stages(hello); !status.ok()) return status;
  std::erase_if(nodes_, [&](const auto& entry) { return is_same_node(entry.second, hello); });
  nodes_[connection] = hello;
  return {};
}

Status NodeRegistry::check_agreement(const Hello& hello) const {
  if (hello.protocol != own_.protocol || hello.release != own_.release) {
    return base::error(ErrorCode::invalid_argument, "it is stagewire ", hello.release, " (protocol ",
                       hello.protocol, ") and the master ", own_.release, " (protocol ", own_.protocol,
                       "): install the same release on all hosts");
  }
  if (hello.pipeline != own_.pipeline) {
    return base::error(ErrorCode::invalid_argument, "it runs the pipeline \"", hello.pipeline,
                       "\" and the master \"", own_.pipeline, "\": give both the same model");
  }
  if (hello.plan != own_.plan) {
    std::string topics;
    for (const auto& [topic, digest] : own_.plan) {
      const auto found = hello.plan.find(topic);
      if (found == hello.plan.end() || found->second != digest)
        topics += (topics.empty() ? "" : ", ") + topic;
    }
    return base::error(ErrorCode::invalid_argument, "its deploy file says other things than the master's of ",
                       topics.empty() ? "more stages" : topics,
                       ": give all nodes the same file and the same --set");
  }
  const std::string words = difference(own_.options, hello.options);
  if (words.empty()) return {};
  return base::error(ErrorCode::invalid_argument, base::printable(words),
                     ": leave it out, the master tells the others");
}

Status NodeRegistry::check_stages(const Hello& hello) const {
  if (hello.stages.empty()) return base::error(ErrorCode::invalid_argument, "it names no stage");
  for (const int stage : hello.stages) {
    if (!has(stages_, stage)) {
      return base::error(ErrorCode::invalid_argument, "there is no stage ", stage, ", the run has ",
                         stage_list(stages_));
    }
    if (has(own_.stages, stage))
      return base::error(ErrorCode::conflict, "stage ", stage, " is run by the master, ", own_.who());
    for (const auto& [connection, node] : nodes_) {
      if (has(node.stages, stage) && !is_same_node(node, hello))
        return base::error(ErrorCode::conflict, "stage ", stage, " is run by ", node.who(), " already");
    }
  }
  return {};
}

const Hello* NodeRegistry::find(const std::string& connection) const {
  const auto found = nodes_.find(connection);
  return found == nodes_.end() ? nullptr : &found->second;
}

std::vector<int> NodeRegistry::missing() const {
  std::vector<int> result;
  for (const int stage : stages_) {
    const bool taken =
        has(own_.stages, stage) ||
        std::any_of(nodes_.begin(), nodes_.end(), [&](const auto& n) { return has(n.second.stages, stage); });
    if (!taken) result.push_back(stage);
  }
  return result;
}

}  // namespace stagewire::pipeline
