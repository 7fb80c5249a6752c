// Typed values: what a key's table row makes of a Node.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "deploy/diagnostics.hpp"
#include "deploy/node.hpp"

namespace stagewire::deploy {

enum class ValueType {
  boolean,  ///< true or false, nothing else
  integer,  ///< decimal
  number,   ///< decimal, with or without a fraction
  size,     ///< bytes with or without a unit
  text,     ///< a string; what YAML would read as something else needs quotes
  token,    ///< a word or a number, kept as it is written ("0", 0, "0,1")
  choice,   ///< one of a list of words, upper and lower case alike
  map,
  list,
  any,  ///< kept as it is
};

/// "boolean", "integer" ... as the reference page names it.
std::string_view to_string(ValueType type);

struct Value {
  ValueType type = ValueType::any;
  bool boolean = false;
  std::int64_t integer = 0;
  double number = 0;
  std::uint64_t size = 0;
  std::string text;            ///< text, token, choice
  const Node* node = nullptr;  ///< nullptr: the default. Borrowed from the tree that was read.

  bool is_default() const { return node == nullptr; }
  /// Equal texts mean equal values of the same type.
  std::string canonical() const;
};

struct KeySpec;

/// Expands environment references and converts. nullopt after reporting an error.
std::optional<Value> read_value(const KeySpec& key, const Node& node, const std::string& path,
                                Diagnostics& diagnostics);

/// The values of one map. A key that is missing, or whose value is wrong (that was reported), has its
/// default.
class Values {
 public:
  /// nullptr: not given, and the key has no default.
  const Value* find(std::string_view name) const;
  bool given(std::string_view name) const;
  /// For keys whose table row has a default; asking for another one is a bug.
  const Value& operator[](std::string_view name) const;
  const std::map<std::string, Value, std::less<>>& all() const { return values_; }
  void put(std::string_view name, Value value);

 private:
  std::map<std::string, Value, std::less<>> values_;
};

}  // namespace stagewire::deploy
