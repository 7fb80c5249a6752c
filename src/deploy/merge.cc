#include "deploy/merge.hpp"

#include <algorithm>
#include <map>

#include "deploy/schema.hpp"

namespace stagewire::deploy {
namespace {

/// Keys of a stage whose maps are merged one level deep; all others are replaced.
bool is_merged_stage_key(std::string_view key) {
  static constexpr std::string_view kMerged[] = {"default_sampling_params",
                                                 "default_pooling_params",
                                                 "subtalker_sampling_params",
                                                 "engine_extras",
                                                 "engine_args",
                                                 "env"};
  return std::find(std::begin(kMerged), std::end(kMerged), key) != std::end(kMerged);
}

void merge_deep(Node& node, const Node& overlay) {
  for (const Entry& entry : overlay.entries) {
    Node* old = node.find(entry.key);
    if (old != nullptr && old->is_map() && entry.value.is_map()) {
      merge_deep(*old, entry.value);
    } else {
      node.set(entry.key, entry.value);
    }
  }
}

void merge_stage(Node& stage, const Node& overlay) {
  for (const Entry& entry : overlay.entries) {
    Node* old = stage.find(entry.key);
    if (old == nullptr || !old->is_map() || !entry.value.is_map() || !is_merged_stage_key(entry.key)) {
      stage.set(entry.key, entry.value);
      continue;
    }
    for (const Entry& inner : entry.value.entries) old->set(inner.key, inner.value);
  }
}

Node* stage_with_id_of(Node& stages, const Node& wanted) {
  const Node* id = wanted.find("stage_id");
  if (id == nullptr || !id->is_scalar()) return nullptr;
  for (Node& stage : stages.items) {
    const Node* other = stage.find("stage_id");
    if (other != nullptr && other->is_scalar() && other->text == id->text) return &stage;
  }
  return nullptr;
}

void merge_stages(Node& stages, const Node& overlay) {
  for (const Node& stage : overlay.items) {
    if (Node* old = stage_with_id_of(stages, stage)) {
      merge_stage(*old, stage);
    } else {
      stages.items.push_back(stage);
    }
  }
}

void merge_platforms(Node& platforms, const Node& overlay) {
  for (const Entry& section : overlay.entries) {
    Node* old = platforms.find(section.key);
    if (old != nullptr && old->is_map() && section.value.is_map()) {
      lay_over(*old, section.value);
    } else {
      platforms.set(section.key, section.value);
    }
  }
}

/// The keys of a platform section: those of the file, without those that only the file itself can have.
bool may_stand_in_platform(std::string_view key) {
  return key != "base_config" && key != "platforms" && find_key(top_level_keys(), key) != nullptr;
}

void check_stages_of_section(const Node& stages, const std::string& path, Diagnostics& diagnostics) {
  if (!stages.is_list()) {
    diagnostics.error(stages.place, path, "expected a list of stages, found ", describe(stages));
    return;
  }
  check_unique_stages(stages, path, diagnostics);
  for (std::size_t i = 0; i < stages.items.size(); ++i) {
    const Node& stage = stages.items[i];
    std::string stage_path = item_path(path, i, stage);
    if (!stage.is_map()) {
      diagnostics.error(stage.place, stage_path, "expected a map, found ", describe(stage));
    } else if (stage.find("stage_id") == nullptr) {
      diagnostics.error(stage.place, stage_path, "has no stage_id");
    } else {
      read_map(stage, stage_keys(), stage_path, diagnostics, Unknown::keep);
    }
  }
}

/// The stages of a section that are not in the file are taken out of `section`.
void drop_unknown_stages(Node& section, Node& config, const std::string& path, Diagnostics& diagnostics) {
  Node* stages = section.find("stages");
  if (stages == nullptr || !stages->is_list()) return;
  Node none = list_node(section.place);
  Node* of_file = config.find("stages");
  Node& known = of_file != nullptr && of_file->is_list() ? *of_file : none;
  Node kept = list_node(stages->place);
  for (const Node& stage : stages->items) {
    if (stage_with_id_of(known, stage) != nullptr) {
      kept.items.push_back(stage);
    } else if (const Node* id = stage.find("stage_id")) {
      diagnostics.warning(stage.place, join_path(path, "stages"), "stage ", id->text,
                          " is not among the stages of this file: skipped");
    }
  }
  *stages = std::move(kept);
}

}  // namespace

void lay_over(Node& config, const Node& overlay) {
  for (const Entry& entry : overlay.entries) {
    Node* old = config.find(entry.key);
    bool both_maps = old != nullptr && old->is_map() && entry.value.is_map();
    bool both_lists = old != nullptr && old->is_list() && entry.value.is_list();
    if (both_maps && entry.key == "connectors") {
      merge_deep(*old, entry.value);
    } else if (both_maps && entry.key == "platforms") {
      merge_platforms(*old, entry.value);
    } else if (both_lists && entry.key == "stages") {
      merge_stages(*old, entry.value);
    } else {
      config.set(entry.key, entry.value);
    }
  }
}

void check_unique_stages(const Node& stages, const std::string& path, Diagnostics& diagnostics) {
  std::map<std::string, Place> seen;
  for (const Node& stage : stages.items) {
    const Node* id = stage.find("stage_id");
    if (id == nullptr || !id->is_scalar()) continue;
    auto [first, is_new] = seen.emplace(id->text, id->place);
    if (is_new) continue;
    std::string where = first->second.line > 0 ? base::text(" (first in line ", first->second.line, ")") : "";
    diagnostics.error(id->place, join_path(path, id->text), "stage ", id->text, " is here twice", where,
                      ": give each stage its own stage_id");
  }
}

void apply_platform(Node& config, const std::string& name, Diagnostics& diagnostics) {
  auto known = platform_names();
  std::vector<std::string_view> names(known.begin(), known.end());
  bool name_is_known = std::find(names.begin(), names.end(), name) != names.end();
  if (!name.empty() && !name_is_known) {
    diagnostics.error(config.place, "platforms", "the platform `", name, "` is not known",
                      suggestion(name, names));
  }
  Node* platforms = config.find("platforms");
  if (platforms == nullptr || !platforms->is_map()) {
    if (platforms != nullptr) {
      diagnostics.error(platforms->place, "platforms", "expected a map, found ", describe(*platforms));
    } else if (name_is_known) {
      diagnostics.note(config.place, "platforms", "there is no section ", name, ": nothing changes for it");
    }
    config.erase("platforms");
    return;
  }
  Node sections = std::move(*platforms);
  config.erase("platforms");
  for (Entry& section : sections.entries) {
    std::string path = join_path("platforms", section.key);
    if (std::find(names.begin(), names.end(), section.key) == names.end()) {
      diagnostics.error(section.place, path, "unknown platform", suggestion(section.key, names));
      continue;
    }
    if (!section.value.is_map()) {
      diagnostics.error(section.value.place, path, "expected a map, found ", describe(section.value));
      continue;
    }
    for (const Entry& entry : section.value.entries) {
      std::string entry_path = join_path(path, entry.key);
      if (entry.key == "stages") {
        check_stages_of_section(entry.value, entry_path, diagnostics);
      } else if (!may_stand_in_platform(entry.key)) {
        diagnostics.error(entry.place, entry_path, "unknown key",
                          suggestion(entry.key, key_names(top_level_keys())));
      }
    }
    if (section.key == name) {
      drop_unknown_stages(section.value, config, path, diagnostics);
      lay_over(config, section.value);
    }
  }
  if (name_is_known && sections.find(name) == nullptr) {
    diagnostics.note(config.place, "platforms", "there is no section ", name, ": nothing changes for it");
  }
}

}  // namespace stagewire::deploy
