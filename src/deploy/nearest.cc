#include "deploy/nearest.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "stagewire/deploy.hpp"

namespace stagewire::deploy {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Optimal string alignment with the last three rows of its table.
  std::array<std::vector<std::size_t>, 3> rows;
  for (auto& row : rows) row.resize(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) rows[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    auto& row = rows[i % 3];
    const auto& above = rows[(i - 1) % 3];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      std::size_t replace = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], rows[(i - 2) % 3][j - 2] + 1);
      }
    }
  }
  return rows[a.size() % 3][b.size()];
}

std::string_view nearest(std::string_view word, const std::vector<std::string_view>& known) {
  constexpr std::size_t kLongestWord = 100;
  if (word.size() > kLongestWord) return {};
  std::size_t best = std::max<std::size_t>(2, word.size() / 3) + 1;
  std::string_view found;
  for (std::string_view candidate : known) {
    std::size_t distance = edit_distance(word, candidate);
    if (distance < best && distance < candidate.size()) {
      best = distance;
      found = candidate;
    }
  }
  return found;
}

}  // namespace stagewire::deploy

namespace stagewire {

std::string suggestion(std::string_view word, const std::vector<std::string_view>& known) {
  std::string_view near = deploy::nearest(word, known);
  if (!near.empty()) return "; did you mean " + std::string(near) + "?";
  std::string out;
  for (std::string_view one : known) out += (out.empty() ? "" : ", ") + std::string(one);
  return out.empty() ? "" : "; known: " + out;
}

}  // namespace stagewire
