// What the YAML library does not look at: is this text at all, and are its quotes closed?
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

/// `scalar` begins where a YAML scalar does, with its anchor if it has one. Where its opening quote is when
/// no closing one follows before the end of the text; nullopt when one does, or when it is not in quotes.
std::optional<std::size_t> find_open_quote(std::string_view scalar);

}  // namespace stagewire::deploy
