#include "payload/marker.hpp"
#include "stagewire/payload.hpp"

namespace stagewire {
namespace {

bool is_true(const Value& value) {
  if (value.is_none()) return false;
  if (const auto* v = value.get_if<bool>()) return *v;
  if (const auto* v = value.get_if<std::int64_t>()) return *v != 0;
  if (const auto* v = value.get_if<std::uint64_t>()) return *v != 0;
  if (const auto* v = value.get_if<double>()) return *v != 0;
  if (const auto* v = value.get_if<std::string_view>()) return !v->empty();
  if (const auto* v = value.get_if<std::span<const std::byte>>()) return !v->empty();
  if (const auto* v = value.get_if<Value::List>()) return !v->empty();
  if (const auto* v = value.get_if<Value::Map>()) return !v->empty();
  return true;  // a tensor: the map that it is encoded as is not empty
}

}  // namespace

const Value* payload::find_entry(const Value::Map& map, std::string_view key) {
  for (auto entry = map.rbegin(); entry != map.rend(); ++entry) {
    const auto* name = entry->first.get_if<std::string_view>();
    if (name != nullptr && *name == key) return &entry->second;
  }
  return nullptr;
}

bool payload::is_marked(const Value::Map& map, std::string_view marker) {
  const Value* entry = find_entry(map, marker);
  return entry != nullptr && is_true(*entry);
}

const Value* Value::find(std::string_view key) const {
  const Map* map = get_if<Map>();
  return map == nullptr ? nullptr : payload::find_entry(*map, key);
}

}  // namespace stagewire
