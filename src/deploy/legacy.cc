#include "deploy/legacy.hpp"

namespace stagewire::deploy {
namespace {

/// Moves `from` (a key of `old_place`) to the top level as `to`.
void move_up(Node& root, Node& old_place, std::string_view from, const std::string& old_path,
             std::string_view to, Diagnostics& diagnostics) {
  Node* value = old_place.find(from);
  if (value == nullptr) return;
  if (root.find(to) != nullptr) {
    diagnostics.error(value->place, old_path, "stands beside today's `", to, "`: keep that one");
    return;
  }
  // The old place may be the root itself: take the value out before the map changes.
  Node moved = std::move(*value);
  old_place.erase(from);
  root.set(to, std::move(moved));
}

/// `engine_input_source: [0]` of stage 1 is the edge 0 -> 1.
void edges_from_input_sources(Node& root) {
  Node* stages = root.find("stages");
  if (stages == nullptr) return;
  Node edges = list_node(stages->place);
  for (const Node& stage : stages->items) {
    const Node* sources = stage.find("engine_input_source");
    const Node* id = stage.find("stage_id");
    if (sources == nullptr || id == nullptr) continue;
    for (const Node& source : sources->items) {
      Node edge = map_node(source.place);
      edge.set("from", source);
      edge.set("to", *id);
      edges.items.push_back(std::move(edge));
    }
  }
  if (edges.items.empty()) return;
  Node* known = root.find("edges");
  if (known == nullptr) {
    root.set("edges", std::move(edges));
  } else if (known->is_list()) {
    known->items.insert(known->items.end(), edges.items.begin(), edges.items.end());
  }
}

/// The top-level `runtime` of the old schema; what is left in it afterwards is not known.
void modernise_runtime(Node& root, Diagnostics& diagnostics) {
  Node* found = root.find("runtime");
  if (found == nullptr) return;
  Node runtime = std::move(*found);
  root.erase("runtime");
  if (!runtime.is_map()) {
    diagnostics.error(runtime.place, "runtime", "expected a map, found ", describe(runtime));
    return;
  }
  move_up(root, runtime, "connectors", "runtime.connectors", "connectors", diagnostics);
  move_up(root, runtime, "edges", "runtime.edges", "edges", diagnostics);
  for (const Entry& entry : runtime.entries) {
    std::string path = join_path("runtime", entry.key);
    if (entry.key == "enabled" || entry.key == "defaults") {
      diagnostics.note(entry.place, path, "has no effect any more: remove it");
    } else if (entry.key != "connectors" && entry.key != "edges") {
      diagnostics.error(entry.place, path, "unknown key",
                        suggestion(entry.key, {"connectors", "edges", "enabled", "defaults"}));
    }
  }
}

}  // namespace

void modernise(Node& root, Diagnostics& diagnostics) {
  const Node* stage_args = root.find("stage_args");
  const Node* runtime = root.find("runtime");
  if (stage_args == nullptr && runtime == nullptr) return;
  Place place = stage_args != nullptr ? stage_args->place : runtime->place;
  diagnostics.note(
      place, stage_args != nullptr ? "stage_args" : "runtime",
      "this is the schema of 2025. Today: the list `stage_args` is called `stages`, `runtime.connectors` "
      "and `runtime.edges` are `connectors` and `edges` at the top, `engine_input_source: [N]` is an "
      "edge, and what stands under a stage's `runtime` and `engine_args` stands in the stage itself");
  move_up(root, root, "stage_args", "stage_args", "stages", diagnostics);
  modernise_runtime(root, diagnostics);
  root.erase("stage_args");  // still there when it was an error
  edges_from_input_sources(root);
}

}  // namespace stagewire::deploy
