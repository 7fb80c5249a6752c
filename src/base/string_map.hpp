// A hash map whose string keys are looked up by string_view without making a string.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace stagewire::base {

struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view key) const { return std::hash<std::string_view>{}(key); }
};
template <typename T>
using StringMap = std::unordered_map<std::string, T, StringHash, std::equal_to<>>;

/// A StringMap for entries that come and go: those that were erased lend their memory to later ones,
/// whichever thread's heap it is of. Values end with their entry, containers by clear(), so that they keep
/// theirs as well. Not thread-safe.
template <typename T>
class ReusingStringMap {
 public:
  using Map = StringMap<T>;
  using iterator = typename Map::iterator;

  iterator begin() { return map_.begin(); }
  iterator end() { return map_.end(); }
  auto begin() const { return map_.begin(); }
  auto end() const { return map_.end(); }
  bool empty() const { return map_.empty(); }
  std::size_t size() const { return map_.size(); }
  iterator find(std::string_view key) { return map_.find(key); }
  auto find(std::string_view key) const { return map_.find(key); }
  bool contains(std::string_view key) const { return map_.contains(key); }

  /// The entry, with an empty value if there was none.
  iterator at(std::string_view key) {
    if (const auto known = map_.find(key); known != map_.end()) return known;
    if (spare_.empty()) return map_.try_emplace(std::string(key)).first;
    typename Map::node_type node = std::move(spare_.back());
    spare_.pop_back();
    node.key() = key;
    return map_.insert(std::move(node)).position;
  }
  iterator erase(iterator entry) {
    const iterator next = std::next(entry);
    if (spare_.size() >= kMostSpare) {
      map_.erase(entry);
      return next;
    }
    typename Map::node_type node = map_.extract(entry);
    if constexpr (requires(T & value) { value.clear(); }) {
      node.mapped().clear();
    } else {
      node.mapped() = T();
    }
    spare_.push_back(std::move(node));
    return next;
  }
  std::size_t erase(std::string_view key) {
    const auto entry = map_.find(key);
    if (entry == map_.end()) return 0;
    erase(entry);
    return 1;
  }
  void clear() { map_.clear(); }

 private:
  static constexpr std::size_t kMostSpare = 8192;
  Map map_;
  std::vector<typename Map::node_type> spare_;
};

}  // namespace stagewire::base
