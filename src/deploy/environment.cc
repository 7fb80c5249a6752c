#include "deploy/environment.hpp"

#include <cstdlib>
#include <optional>

#include "base/text.hpp"

namespace stagewire::deploy {
namespace {

bool starts_name(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

/// The variable name at the front of `text`, empty when there is none.
std::string_view name_at_front(std::string_view text) {
  if (text.empty() || !starts_name(text.front())) return {};
  std::size_t size = 1;
  while (size < text.size() && (starts_name(text[size]) || (text[size] >= '0' && text[size] <= '9'))) ++size;
  return text.substr(0, size);
}

Result<std::string> look_up(std::string_view name, std::optional<std::string_view> fallback) {
  const char* value = std::getenv(std::string(name).c_str());
  // As in a shell, :- also replaces a variable that is set to nothing.
  if (fallback && (value == nullptr || *value == '\0')) return std::string(*fallback);
  if (value == nullptr) {
    return base::error(ErrorCode::not_found, "the environment variable ", name,
                       " is not set: set it, or write ${", name, ":-a default}");
  }
  return std::string(value);
}

struct Reference {
  Result<std::string> value;
  std::size_t size = 0;  ///< characters that the reference takes
};

/// `text` begins with "${".
Reference braced_reference(std::string_view text) {
  auto wrong = [&](std::string_view why) {
    return Reference{base::error(ErrorCode::invalid_argument, "`", text.substr(0, 40), "` ", why,
                                 ": write ${NAME} or ${NAME:-default}, or $$ for a dollar sign"),
                     0};
  };
  std::size_t close = text.find('}');
  if (close == std::string_view::npos) return wrong("has no closing }");
  std::string_view inside = text.substr(2, close - 2);
  std::string_view name = name_at_front(inside);
  std::string_view rest = inside.substr(name.size());
  if (name.empty()) return wrong("names no variable");
  if (rest.empty()) return {look_up(name, std::nullopt), close + 1};
  if (rest.substr(0, 2) != ":-") return wrong("is no reference");
  return {look_up(name, rest.substr(2)), close + 1};
}

}  // namespace

Result<Expanded> expand_environment(std::string_view text) {
  Expanded out;
  for (std::size_t at = 0; at < text.size();) {
    std::string_view rest = text.substr(at);
    if (rest.front() != '$' || rest.size() == 1) {
      out.text += rest.front();
      ++at;
      continue;
    }
    if (rest[1] == '$') {
      out.text += '$';
      at += 2;
      continue;
    }
    Reference reference{std::string(), 0};
    if (rest[1] == '{') {
      reference = braced_reference(rest);
    } else if (std::string_view name = name_at_front(rest.substr(1)); !name.empty()) {
      reference = {look_up(name, std::nullopt), name.size() + 1};
    } else {
      out.text += '$';
      ++at;
      continue;
    }
    if (!reference.value) return reference.value.error();
    out.text += *reference.value;
    out.changed = true;
    at += reference.size;
  }
  return out;
}

void expand_tree(Node& node, const std::string& path, Diagnostics& diagnostics) {
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    expand_tree(node.items[i], item_path(path, i, node.items[i]), diagnostics);
  }
  for (Entry& entry : node.entries) expand_tree(entry.value, join_path(path, entry.key), diagnostics);
  if (!node.is_scalar() || node.text.find('$') == std::string::npos) return;
  auto expanded = expand_environment(node.text);
  if (!expanded) {
    diagnostics.error(node.place, path, expanded.error().message());
    node.broken = true;
    return;
  }
  node.text = std::move(expanded->text);
  node.expanded = expanded->changed;
}

}  // namespace stagewire::deploy
