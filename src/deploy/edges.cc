#include "deploy/edges.hpp"

#include <charconv>
#include <optional>

#include "deploy/edge_rules.hpp"
#include "deploy/schema.hpp"

namespace stagewire::deploy {
namespace {

/// N of "from_stage_N" with the prefix "from_stage_".
std::optional<int> stage_of_key(std::string_view key, std::string_view prefix) {
  if (key.substr(0, prefix.size()) != prefix) return std::nullopt;
  std::string_view digits = key.substr(prefix.size());
  int stage = 0;
  auto [stopped, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), stage);
  bool plain = failure == std::errc() && stopped == digits.data() + digits.size() && stage >= 0;
  return plain && (digits.size() == 1 || digits.front() != '0') ? std::optional(stage) : std::nullopt;
}

class Gatherer {
 public:
  Gatherer(const ConnectorTable& connectors, Diagnostics& diagnostics)
      : connectors_(connectors), diagnostics_(diagnostics) {}

  void from_stage(const StageNode& stage) {
    from_connector_map(stage, "input_connectors", "from_stage_");
    from_connector_map(stage, "output_connectors", "to_stage_");
  }

  void from_list(const Node& edges) {
    if (!edges.is_list()) return;  // reported with the top level
    for (std::size_t i = 0; i < edges.items.size(); ++i) from_item(edges.items[i], base::text("edges.", i));
  }

  std::vector<Edge> take() {
    std::vector<Edge> out;
    for (auto& [ends, edge] : edges_) out.push_back(std::move(edge));
    return out;
  }

 private:
  void from_connector_map(const StageNode& stage, std::string_view key, std::string_view prefix) {
    const Node* map = stage.node->find(key);
    if (map == nullptr || !map->is_map()) return;  // another kind was reported with the stage
    for (const Entry& entry : map->entries) {
      std::string path = join_path(join_path(stage.path, key), entry.key);
      auto other = stage_of_key(entry.key, prefix);
      if (!other) {
        diagnostics_.error(entry.place, path, "expected a key such as ", prefix, stage.stage_id == 0 ? 1 : 0);
        continue;
      }
      bool is_input = key == "input_connectors";
      add(is_input ? *other : stage.stage_id, is_input ? stage.stage_id : *other,
          {entry.place, path, resolve(entry.value, path)});
    }
  }

  void from_item(const Node& item, const std::string& path) {
    if (!item.is_map()) {
      diagnostics_.error(item.place, path, "expected a map with `from` and `to`, found ", describe(item));
      return;
    }
    Values values = read_map(item, edge_keys(), path, diagnostics_);
    for (std::string_view end : {"from", "to"}) {
      if (item.find(end) == nullptr)
        diagnostics_.error(item.place, path, "has no `", end, "`: write a stage_id");
    }
    const Value* from = values.find("from");
    const Value* to = values.find("to");
    if (from == nullptr || to == nullptr) return;
    const Node* connector = item.find("connector");
    add(static_cast<int>(from->integer), static_cast<int>(to->integer),
        {item.place, path,
         connector == nullptr ? nullptr : resolve(*connector, join_path(path, "connector"))});
  }

  ConnectorPtr resolve(const Node& reference, const std::string& path) {
    return connectors_.resolve(reference, path, diagnostics_);
  }

  void add(int from, int to, EdgeClaim claim) {
    Edge& edge = edges_[{from, to}];
    edge.from = from;
    edge.to = to;
    edge.claims.push_back(std::move(claim));
  }

  const ConnectorTable& connectors_;
  Diagnostics& diagnostics_;
  std::map<std::pair<int, int>, Edge> edges_;
};

}  // namespace

std::vector<Edge> read_edges(const std::vector<StageNode>& stages, const Node* edges,
                             const ConnectorTable& connectors, Diagnostics& diagnostics) {
  Gatherer gatherer(connectors, diagnostics);
  for (const StageNode& stage : stages) gatherer.from_stage(stage);
  if (edges != nullptr) gatherer.from_list(*edges);
  std::vector<Edge> out = gatherer.take();
  check_edges(out, stages, connectors, diagnostics);
  return out;
}

}  // namespace stagewire::deploy
