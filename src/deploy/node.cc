#include "deploy/node.hpp"

#include <algorithm>

#include "base/printable.hpp"

namespace stagewire::deploy {

const Node* Node::find(std::string_view key) const {
  auto at =
      std::find_if(entries.begin(), entries.end(), [&](const Entry& entry) { return entry.key == key; });
  return at == entries.end() ? nullptr : &at->value;
}

Node* Node::find(std::string_view key) {
  return const_cast<Node*>(static_cast<const Node*>(this)->find(key));
}

void Node::set(std::string_view key, Node value) {
  auto at =
      std::find_if(entries.begin(), entries.end(), [&](const Entry& entry) { return entry.key == key; });
  if (at == entries.end()) {
    entries.push_back({std::string(key), value.place, std::move(value)});
  } else {
    at->place = value.place;
    at->value = std::move(value);
  }
}

void Node::erase(std::string_view key) {
  std::erase_if(entries, [&](const Entry& entry) { return entry.key == key; });
}

Node scalar_node(std::string_view text, const Place& place) {
  Node node;
  node.kind = Node::Kind::scalar;
  node.place = place;
  node.text = text;
  return node;
}

Node map_node(const Place& place) {
  Node node;
  node.kind = Node::Kind::map;
  node.place = place;
  return node;
}

Node list_node(const Place& place) {
  Node node;
  node.kind = Node::Kind::list;
  node.place = place;
  return node;
}

namespace {

std::string in_quotes(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7F) {
      out += "\\x";
      out += kHex[byte >> 4U];
      out += kHex[byte & 15U];
    } else {
      out += c;
    }
  }
  return out + '"';
}

/// A plain scalar that may stand in a flow list or map as it is.
bool may_stay_plain(std::string_view text) {
  if (text.empty() || std::string_view("!&*-?:|>@`%#'\" ").find(text.front()) != std::string_view::npos) {
    // "-1" is a number, "- 1" and "-" are not.
    if (text.size() < 2 || text.front() != '-' || text[1] < '.' || text[1] > '9') return false;
  }
  if (base::printable(text) != text) return false;
  return text.find_first_of(",[]{}#:\"") == std::string_view::npos;
}

std::string scalar_to_yaml(std::string_view text, bool quoted) {
  return !quoted && may_stay_plain(text) ? std::string(text) : in_quotes(text);
}

/// Keys are strings: one that would read as something else is quoted.
std::string key_to_yaml(std::string_view key) {
  bool looks_null = key == "null" || key == "Null" || key == "NULL" || key == "~";
  return scalar_to_yaml(key, looks_null);
}

}  // namespace

std::string to_yaml(const Node& node) {
  std::string out;
  switch (node.kind) {
    case Node::Kind::null:
      return "null";
    case Node::Kind::scalar:
      return scalar_to_yaml(node.text, node.quoted);
    case Node::Kind::list:
      for (const Node& item : node.items) out += (out.empty() ? "" : ", ") + to_yaml(item);
      return "[" + out + "]";
    case Node::Kind::map:
      for (const Entry& entry : node.entries) {
        out += (out.empty() ? "" : ", ") + key_to_yaml(entry.key) + ": " + to_yaml(entry.value);
      }
      return "{" + out + "}";
  }
  return out;
}

std::string describe(const Node& node) {
  constexpr std::size_t kShown = 60;
  switch (node.kind) {
    case Node::Kind::null:
      return "nothing (null)";
    case Node::Kind::list:
      return "a list";
    case Node::Kind::map:
      return "a map";
    case Node::Kind::scalar:
      break;
  }
  std::string shown = node.text;
  if (shown.size() > kShown) {
    std::size_t end = kShown;
    while (end > 0 && (static_cast<unsigned char>(shown[end]) & 0xC0U) == 0x80U) --end;
    shown = shown.substr(0, end) + "...";
  }
  if (node.expanded) return "`" + shown + "` (from the environment)";
  return node.quoted ? "the string " + in_quotes(shown) : "`" + shown + "`";
}

}  // namespace stagewire::deploy
