// Over which ports two ends are connected: a way is one of ours and one of the peer's.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "base/clock.hpp"

namespace stagewire::backends::rdma {

struct Way {
  std::size_t port = 0;  ///< ours
  std::size_t rail = 0;  ///< the peer's
  bool operator==(const Way&) const = default;
};

/// Kept by the end that connects. Ports at the same place of both lists come first: they are taken to be on
/// one rail, and other ways may lead nowhere.
class Ways {
 public:
  /// Which ports are of Ethernet, ours and theirs: others do not reach each other.
  Ways(const std::vector<bool>& ours, const std::vector<bool>& theirs);

  struct Choice {
    Way frames;
    std::vector<Way> data;     ///< no port of either end twice
    std::vector<Way> missing;  ///< that would be used if all were well
  };
  /// Those that are not known to be dead, at most `most` for data; when there are none, all are tried again.
  Choice choose(std::size_t most, base::TimePoint now,
                const std::function<bool(std::size_t port)>& is_active);
  /// Nothing gets through: the others come first for a while.
  void note_dead(const Way& way, base::TimePoint now);
  /// All are good again, for all that is known.
  void forgive();
  std::size_t count() const { return entries_.size(); }

 private:
  struct Entry {
    Way way;
    base::TimePoint dead_until{};
  };
  static std::vector<Way> apart(const std::vector<Way>& ways, std::size_t most);

  std::vector<Entry> entries_;  ///< the best first; never empty
};

}  // namespace stagewire::backends::rdma
