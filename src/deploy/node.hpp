// A YAML document as plain values that remember where they stand. No type of the YAML library leaves
// yaml_reader.cc.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace stagewire::deploy {

/// Where something was written. Line and column count from 1; line 0 = not in a file (an override).
struct Place {
  std::shared_ptr<const std::string> file;
  int line = 0;
  int column = 0;
};

struct Entry;

/// A value of the document. Aliases are copied in, so a Node owns all that is below it.
struct Node {
  enum class Kind { null, scalar, list, map };
  Kind kind = Kind::null;
  Place place;
  std::string text;            ///< scalar: its characters, quotes removed
  bool quoted = false;         ///< scalar: it stood in quotes (or in a block), so it is a string
  bool expanded = false;       ///< scalar: environment references were replaced, so the quotes say nothing
  bool broken = false;         ///< scalar: a reference could not be replaced; that was reported
  std::vector<Node> items;     ///< list
  std::vector<Entry> entries;  ///< map, in the order of the file; keys are unique

  bool is_scalar() const { return kind == Kind::scalar; }
  bool is_list() const { return kind == Kind::list; }
  bool is_map() const { return kind == Kind::map; }

  /// The value under a key of a map; nullptr when this is no map or has no such key.
  const Node* find(std::string_view key) const;
  Node* find(std::string_view key);
  /// Sets a key of a map, or replaces its value (its place becomes that of the new value).
  void set(std::string_view key, Node value);
  /// Removes a key of a map; nothing happens when it is not there.
  void erase(std::string_view key);
};

struct Entry {
  std::string key;
  Place place;
  Node value;
};

/// A plain scalar, a map, at `place`.
Node scalar_node(std::string_view text, const Place& place);
Node map_node(const Place& place);
Node list_node(const Place& place);

/// The value on one line of YAML that reads back as the same value.
std::string to_yaml(const Node& node);
/// What a message calls a value: "`lots`", "the string \"no\"", "a list", "nothing".
std::string describe(const Node& node);

}  // namespace stagewire::deploy
