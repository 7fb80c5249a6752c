#include "backends/rdma/ways.hpp"

#include <algorithm>

namespace stagewire::backends::rdma {
namespace {

constexpr base::Duration kDead = std::chrono::seconds(30);

}  // namespace

Ways::Ways(const std::vector<bool>& ours, const std::vector<bool>& theirs) {
  for (const bool same_kind : {true, false}) {  // of two kinds: only when there is nothing else
    for (std::size_t turn = 0; turn < ours.size() * theirs.size(); ++turn) {
      const std::size_t port = turn % ours.size();
      const Way way{port, (port + turn / ours.size()) % theirs.size()};
      if ((ours[way.port] == theirs[way.rail]) == same_kind) entries_.push_back({way, {}});
    }
    if (!entries_.empty()) return;
  }
}

std::vector<Way> Ways::apart(const std::vector<Way>& ways, std::size_t most) {
  std::vector<Way> chosen;
  for (const Way& way : ways) {
    const bool taken = std::any_of(chosen.begin(), chosen.end(), [&](const Way& other) {
      return other.port == way.port || other.rail == way.rail;
    });
    if (!taken && chosen.size() < most) chosen.push_back(way);
  }
  return chosen;
}

Ways::Choice Ways::choose(std::size_t most, base::TimePoint now,
                          const std::function<bool(std::size_t port)>& is_active) {
  std::vector<Way> all;
  std::vector<Way> active;
  std::vector<Way> good;
  for (const Entry& entry : entries_) {
    all.push_back(entry.way);
    if (!is_active(entry.way.port)) continue;
    active.push_back(entry.way);
    if (now >= entry.dead_until) good.push_back(entry.way);
  }
  if (good.empty()) {
    forgive();
    good = active.empty() ? all : active;
  }
  Choice choice;
  choice.frames = good.front();
  choice.data = apart(good, most);
  for (const Way& way : apart(all, most)) {
    if (std::find(choice.data.begin(), choice.data.end(), way) == choice.data.end())
      choice.missing.push_back(way);
  }
  return choice;
}

void Ways::note_dead(const Way& way, base::TimePoint now) {
  for (Entry& entry : entries_) {
    if (entry.way == way) entry.dead_until = now + kDead;
  }
}

void Ways::forgive() {
  for (Entry& entry : entries_) entry.dead_until = {};
}

}  // namespace stagewire::backends::rdma
