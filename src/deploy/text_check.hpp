// Is this text at all? Asked before the YAML library sees the bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace stagewire::deploy {

struct TextProblem {
  int line = 1;
  int column = 1;  ///< in bytes
  std::string message;
};

/// The first byte that is not UTF-8 text, or a tab that indents a line.
std::optional<TextProblem> find_text_problem(std::string_view text);

}  // namespace stagewire::deploy
