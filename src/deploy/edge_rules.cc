#include "deploy/edge_rules.hpp"

#include <algorithm>
#include <set>

namespace stagewire::deploy {
namespace {

std::string edge_name(const Edge& edge) {
  return base::text(edge.from, " -> ", edge.to);
}

template <typename Texts>
std::string comma_list(const Texts& texts) {
  std::string out;
  for (const auto& text : texts) out += (out.empty() ? "" : ", ") + base::text(text);
  return out;
}

const EdgeClaim& first_claim(const Edge& edge) {
  return edge.claims.front();
}

/// Both ends must be stages of the file, and two of them.
bool check_ends(const Edge& edge, const std::set<int>& stage_ids, Diagnostics& diagnostics) {
  const EdgeClaim& claim = first_claim(edge);
  if (edge.from == edge.to) {
    diagnostics.error(claim.place, claim.path, "an edge from stage ", edge.from, " to itself");
    return false;
  }
  bool good = true;
  for (int end : {edge.from, edge.to}) {
    if (stage_ids.count(end) != 0) continue;
    diagnostics.error(claim.place, claim.path, "the edge ", edge_name(edge), " needs stage ", end,
                      ", which is not in the file: it has ",
                      stage_ids.empty() ? "none" : comma_list(stage_ids));
    good = false;
  }
  return good;
}

/// One connector for all claims: nullptr after an error.
ConnectorPtr agreed_connector(const Edge& edge, const ConnectorTable& connectors, Diagnostics& diagnostics) {
  const EdgeClaim* first = nullptr;
  for (const EdgeClaim& claim : edge.claims) {
    if (claim.connector == nullptr) continue;
    if (claim.connector->class_name.empty()) return nullptr;  // reported where it is defined
    if (first == nullptr) {
      first = &claim;
      continue;
    }
    auto differing = differing_keys(*first->connector, *claim.connector, true);
    if (differing.empty()) continue;
    diagnostics.error(claim.place, claim.path, "the ends of edge ", edge_name(edge), " disagree in ",
                      comma_list(differing), ": use one connector for both (the other end is ", first->path,
                      ")");
    return nullptr;
  }
  if (first == nullptr) {
    diagnostics.error(first_claim(edge).place, first_claim(edge).path, "the edge ", edge_name(edge),
                      " has no connector", connectors.defined(), ". Write `connector: NAME` here, or ",
                      "`output_connectors: {to_stage_", edge.to, ": NAME}` in stage ", edge.from);
    return nullptr;
  }
  const ConnectorSpec& spec = *first->connector;
  if (!spec.served) {
    diagnostics.error(
        first->place, first->path, "edge ", edge_name(edge), " uses ", spec.class_name,
        ", which is vllm-omni's and not in Stagewire: use MoriTransferEngineConnector (between stages ",
        "on one host it goes through shared memory)");
    return nullptr;
  }
  return first->connector;
}

void check_fan_in(const std::vector<Edge>& edges, Diagnostics& diagnostics) {
  std::map<int, const Edge*> upstream;
  for (const Edge& edge : edges) {
    auto [known, is_new] = upstream.emplace(edge.to, &edge);
    if (is_new) continue;
    diagnostics.error(first_claim(edge).place, first_claim(edge).path, "stage ", edge.to,
                      " has a second upstream, stage ", edge.from, " besides stage ", known->second->from,
                      ": a stage receives from one stage only");
  }
}

/// Reports one cycle of those that can be reached, by its stages.
void check_cycles(const std::vector<Edge>& edges, Diagnostics& diagnostics) {
  std::map<int, std::vector<const Edge*>> out_of;
  for (const Edge& edge : edges) {
    if (edge.from != edge.to) out_of[edge.from].push_back(&edge);
  }
  // Stages from which no way leads on, or only ways to such, are in no cycle: take them away until none is
  // left.
  std::map<int, std::vector<const Edge*>> rest = out_of;
  for (bool removed = true; removed;) {
    removed = false;
    for (auto& [stage, ways] : rest) {
      removed = std::erase_if(ways,
                              [&](const Edge* way) {
                                auto next = rest.find(way->to);
                                return next == rest.end() || next->second.empty();
                              }) > 0 ||
                removed;
    }
  }
  auto start = std::find_if(rest.begin(), rest.end(), [](const auto& one) { return !one.second.empty(); });
  if (start == rest.end()) return;
  std::vector<int> way{start->first};
  const Edge* edge = nullptr;
  do {
    edge = rest[way.back()].front();
    way.push_back(edge->to);
  } while (std::count(way.begin(), way.end(), edge->to) < 2);
  way.erase(way.begin(), std::find(way.begin(), way.end(), edge->to));
  std::string shown;
  for (int stage : way) shown += (shown.empty() ? "" : " -> ") + base::text(stage);
  diagnostics.error(first_claim(*edge).place, first_claim(*edge).path, "the edges form a circle: ", shown);
}

/// A stage has one connector: what its edges ask of it must fit together.
void check_one_connector_per_stage(const std::vector<Edge>& edges, Diagnostics& diagnostics) {
  std::map<int, const Edge*> first_out;
  std::map<int, const Edge*> in;
  auto must_agree = [&](int stage, const Edge& one, const Edge& other, bool with_directional) {
    if (one.connector == nullptr || other.connector == nullptr) return;
    auto differing = differing_keys(*one.connector, *other.connector, with_directional);
    if (differing.empty()) return;
    diagnostics.error(first_claim(other).place, first_claim(other).path, "stage ", stage,
                      " has one connector for all its edges, but those of ", edge_name(one), " and ",
                      edge_name(other), " differ in ", comma_list(differing), ": make them agree");
  };
  for (const Edge& edge : edges) in.emplace(edge.to, &edge);
  for (const Edge& edge : edges) {
    auto [first, is_new] = first_out.emplace(edge.from, &edge);
    if (!is_new) must_agree(edge.from, *first->second, edge, true);
    auto upstream = in.find(edge.from);
    if (is_new && upstream != in.end() && edge.from != edge.to)
      must_agree(edge.from, *upstream->second, edge, false);
  }
}

}  // namespace

void check_edges(std::vector<Edge>& edges, const std::vector<StageNode>& stages,
                 const ConnectorTable& connectors, Diagnostics& diagnostics) {
  std::set<int> stage_ids;
  for (const StageNode& stage : stages) stage_ids.insert(stage.stage_id);
  std::vector<Edge> sound;
  for (Edge& edge : edges) {
    if (!check_ends(edge, stage_ids, diagnostics)) continue;
    edge.connector = agreed_connector(edge, connectors, diagnostics);
    sound.push_back(edge);
  }
  check_fan_in(sound, diagnostics);
  check_cycles(sound, diagnostics);
  check_one_connector_per_stage(sound, diagnostics);
}

}  // namespace stagewire::deploy
