// "did you mean ...?", which suggestion() of the public header says.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stagewire::deploy {

/// Insertions, removals, replacements and swaps of neighbours that lead from one word to the other.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The known word that is nearest to `word`, or empty when none is near (a third of its letters, at least
/// two, may be wrong). The first of equals.
std::string_view nearest(std::string_view word, const std::vector<std::string_view>& known);

}  // namespace stagewire::deploy
