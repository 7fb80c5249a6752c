#include "deploy/override.hpp"

#include <memory>

#include "deploy/yaml_reader.hpp"

namespace stagewire::deploy {
namespace {

Place override_place() {
  return {std::make_shared<const std::string>("--set"), 0, 0};
}

std::vector<std::string> split_path(std::string_view text) {
  std::vector<std::string> out;
  while (true) {
    std::size_t dot = text.find('.');
    out.emplace_back(text.substr(0, dot));
    if (dot == std::string_view::npos) return out;
    text.remove_prefix(dot + 1);
  }
}

std::string joined(const std::vector<std::string>& path, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out = join_path(out, path[i]);
  return out;
}

/// The name by which an item of a list is called in a path.
std::string item_name(std::size_t index, const Node& item) {
  return item_path("", index, item);
}

Node* list_item(Node& list, const std::string& name) {
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    if (item_name(i, list.items[i]) == name) return &list.items[i];
  }
  return nullptr;
}

std::string names_of_items(const Node& list) {
  std::string out;
  for (std::size_t i = 0; i < list.items.size(); ++i)
    out += (i == 0 ? "" : ", ") + item_name(i, list.items[i]);
  return out.empty() ? "it is empty" : "it has " + out;
}

}  // namespace

std::optional<Override> parse_override(std::string_view text, Diagnostics& diagnostics) {
  Place place = override_place();
  std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    diagnostics.error(place, "", "`", text, "` is no override: write path=value, such as stages.0.devices=1");
    return std::nullopt;
  }
  Override out;
  std::string path(text.substr(0, equals));
  out.path = split_path(path);
  for (const std::string& part : out.path) {
    if (part.empty()) {
      diagnostics.error(place, path, "an empty name in the path: write names with one dot between them");
      return std::nullopt;
    }
  }
  if (out.path.size() > static_cast<std::size_t>(kMaxDepth)) {
    diagnostics.error(place, path.substr(0, 60), "a path of more than ", kMaxDepth, " names");
    return std::nullopt;
  }
  auto value = read_yaml_value(text.substr(equals + 1), place, path, diagnostics);
  if (!value) return std::nullopt;
  out.value = std::move(*value);
  out.value.place = place;
  return out;
}

void apply_override(Node& root, const Override& one, Diagnostics& diagnostics) {
  Node* at = &root;
  for (std::size_t i = 0; i < one.path.size(); ++i) {
    const std::string& name = one.path[i];
    bool is_last = i + 1 == one.path.size();
    std::string path = joined(one.path, i + 1);
    if (at->is_list()) {
      Node* item = list_item(*at, name);
      if (item == nullptr) {
        diagnostics.error(one.value.place, path, "there is no `", name,
                          "` in this list: ", names_of_items(*at));
        return;
      }
      at = item;
      if (is_last) *at = one.value;
      continue;
    }
    if (at->kind == Node::Kind::null) *at = map_node(one.value.place);
    if (!at->is_map()) {
      diagnostics.error(one.value.place, path, joined(one.path, i), " is ", describe(*at),
                        ", it has nothing inside");
      return;
    }
    if (is_last || at->find(name) == nullptr) at->set(name, is_last ? one.value : map_node(one.value.place));
    at = at->find(name);
  }
}

}  // namespace stagewire::deploy
