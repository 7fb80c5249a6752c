#include "cli/shown.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace stagewire::cli {

std::string shown(const std::string& text) {
  const bool has_controls = std::any_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7F;
  });
  // JSON leaves DEL and the C1 controls (C2 80 to C2 9F) as they are: everything beyond ASCII is escaped
  // then.
  const bool has_c1 = text.find('\xC2') != std::string::npos;
  if (!has_controls && !has_c1) return text;
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

}  // namespace stagewire::cli
