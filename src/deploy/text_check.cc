#include "deploy/text_check.hpp"

#include <algorithm>
#include <cstdint>

#include "base/text.hpp"

namespace stagewire::deploy {
namespace {

/// Length of the UTF-8 character at the front of `rest`, 0 when there is none.
std::size_t character_size(std::string_view rest) {
  auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(rest[i])); };
  std::uint32_t first = byte(0);
  if (first < 0x80) return 1;
  std::size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || rest.size() < size) return 0;
  std::uint32_t code = first & (0x7FU >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return 0;
    code = (code << 6U) | (byte(i) & 0x3FU);
  }
  bool overlong = (size == 3 && code < 0x800) || (size == 4 && code < 0x10000);
  bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  return overlong || surrogate || code > 0x10FFFF ? 0 : size;
}

bool is_control(char c) {
  auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\n' && c != '\r' && c != '\t') || byte == 0x7F;
}

/// Where the scalar's own characters begin: behind an anchor, a tag, spaces, comments and line ends.
std::size_t after_properties(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  std::size_t at = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (kSpace.find(c) != std::string_view::npos) {
      ++at;
    } else if (c == '&' || c == '!') {
      at = std::min(text.size(), text.find_first_of(kSpace, at));
    } else if (c == '#' && at > 0) {
      at = std::min(text.size(), text.find('\n', at));
    } else {
      return at;
    }
  }
  return at;
}

}  // namespace

std::optional<std::size_t> find_open_quote(std::string_view scalar) {
  const std::size_t open = after_properties(scalar);
  if (open >= scalar.size()) return std::nullopt;
  const char quote = scalar[open];
  if (quote != '\'' && quote != '"') return std::nullopt;
  for (std::size_t at = open + 1; at < scalar.size(); ++at) {
    if (quote == '"' && scalar[at] == '\\') {
      ++at;
    } else if (scalar[at] == quote) {
      const bool is_escaped = quote == '\'' && at + 1 < scalar.size() && scalar[at + 1] == quote;
      if (!is_escaped) return std::nullopt;
      ++at;
    }
  }
  return open;
}

std::optional<TextProblem> find_text_problem(std::string_view text) {
  int line = 1;
  std::size_t line_start = 0;
  bool indenting = true;
  for (std::size_t at = 0; at < text.size();) {
    auto problem = [&](std::string message) {
      return TextProblem{line, static_cast<int>(at - line_start) + 1, std::move(message)};
    };
    char c = text[at];
    std::size_t size = character_size(text.substr(at));
    if (size == 0 || is_control(c)) {
      return problem(base::text("byte ", static_cast<int>(static_cast<unsigned char>(c)),
                                " is not UTF-8 text: a deploy file is YAML in UTF-8"));
    }
    if (c == '\t' && indenting) {
      std::size_t after = text.find_first_not_of(" \t", at);
      if (after != std::string_view::npos && text[after] != '\n' && text[after] != '\r' &&
          text[after] != '#') {
        return problem("a tab indents this line: YAML indents with spaces only");
      }
    }
    if (c != ' ' && c != '\t') indenting = false;
    at += size;
    if (c == '\n') {
      ++line;
      line_start = at;
      indenting = true;
    }
  }
  return std::nullopt;
}

}  // namespace stagewire::deploy
